// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/knative-cdevents/knative-cdevents/api/plural"
)

// A shard with a past is compared by how it changed, a new one only by its rate. The two are not
// comparable, and which shards are new is not chance: a canary that starts with mostly new ones would
// look worse or better only for that. So the new shards are a stratum of their own, which is compared
// and permuted by itself.

// stratum is a set of comparable shards.
type stratum struct {
	names []string
	// canary and baseline count the shards of each side.
	canary, baseline int
	// levels means that nothing is known of them before the split.
	levels bool
}

// whole reports whether it can be compared: both sides are there, and it has at least as many shards as
// two sides need.
func (s stratum) whole(least int) bool {
	return s.canary > 0 && s.baseline > 0 && s.canary+s.baseline >= 2*least
}

// census counts the shards that can be compared, and tells why others cannot.
type census struct {
	// canary and baseline count comparable shards; newCanary and newBaseline count the new ones of
	// them.
	canary, baseline, newCanary, newBaseline int
	// aloneCanary and aloneBaseline count new or known shards of which the other side has none or too
	// few. aloneNew counts the canary's new ones.
	aloneCanary, aloneBaseline, aloneNew int
	// moved counts the shards that both sides handled.
	moved int
	// ways is the number of ways to deal the shards to the two sides.
	ways float64
}

// strata returns the strata of the shards, and how many are in them.
func (s *shards) strata(least int) ([]stratum, census) {
	var c census
	known, fresh := stratum{}, stratum{levels: true}
	for _, name := range slices.Sorted(maps.Keys(s.Counts)) {
		one := s.Counts[name]
		onCanary, onBaseline := one[canarySide] > 0, one[baselineSide] > 0
		in := &fresh
		if one[beforeSide] > 0 {
			in = &known
		}
		switch {
		case onCanary && onBaseline:
			c.moved++
			continue
		case onCanary:
			in.canary++
		case onBaseline:
			in.baseline++
		default:
			continue
		}
		in.names = append(in.names, name)
	}
	var out []stratum
	c.ways = 1
	for _, one := range []stratum{known, fresh} {
		if !one.whole(least) {
			c.aloneCanary, c.aloneBaseline = c.aloneCanary+one.canary, c.aloneBaseline+one.baseline
			if one.levels {
				c.aloneNew = one.canary
			}
			continue
		}
		out = append(out, one)
		c.canary, c.baseline = c.canary+one.canary, c.baseline+one.baseline
		c.ways = math.Min(math.MaxFloat64, c.ways*ways(one.canary+one.baseline, one.canary))
		if one.levels {
			c.newCanary, c.newBaseline = one.canary, one.baseline
		}
	}
	return out, c
}

// represents reports whether the compared shards stand for all that the canary handled: they have at
// least half of its requests, and the rest is not worse by more than is tolerated or is too small to
// matter. The rest are shards without a counterpart, handed over or too many, and requests of no shard.
func (v analysis) represents(m Metric, all tally) bool {
	var in tally
	at, _ := m.Kind.kind().column(m)
	for _, s := range v.strata {
		for _, name := range s.names {
			if one := v.shards.Counts[name]; one[canarySide] > 0 {
				in.add(one.tally(canarySide, at))
			}
		}
	}
	out := tally{N: max(0, all.N-in.N), K: max(0, all.K-in.K)}
	odds := func(t tally) float64 { return (t.K + 0.5) / (t.N - t.K + 0.5) }
	return out.N <= in.N && (out.K <= max(1, mostUnknown*all.K) || odds(out) <= m.MaxOddsRatio*odds(in))
}

func (c census) enough(least int) bool { return c.canary >= least && c.baseline >= least }

// missing returns how many more shards the canary and the baseline need before a proof is possible.
func (c census) missing(least int, level float64) (canary, baseline int) {
	canary, baseline = max(0, least-c.canary), max(0, least-c.baseline)
	for canary+c.canary < MaxShards && ways(c.canary+canary+c.baseline+baseline, c.canary+canary)*level < 1 {
		if c.canary+canary <= c.baseline+baseline {
			canary++
		} else {
			baseline++
		}
	}
	return canary, baseline
}

func (c census) String() string {
	text := fmt.Sprintf("%s of the canary compared with %d of the baseline",
		plural.Of(c.canary, "shard", "shards"), c.baseline)
	switch {
	case c.canary+c.baseline == 0:
		text = "no shards can be compared"
	case c.newCanary == c.canary && c.newBaseline == c.baseline:
		text += " by their rates alone, because what they did before the split is not known"
	case c.newCanary > 0:
		text += fmt.Sprintf(", of which %d and %d are new and are compared with each other by their rates alone", c.newCanary,
			c.newBaseline)
	}
	if c.aloneCanary > 0 {
		text += "; " + c.alone()
	}
	if c.moved > 0 {
		text += fmt.Sprintf("; %d left out that both have handled", c.moved)
	}
	return text
}

// alone describes the canary's shards without a counterpart.
func (c census) alone() string {
	text := plural.Of(c.aloneCanary, "shard", "shards") + " of the canary left out: "
	switch c.aloneNew {
	case 0:
		return text + "too few of those that were there before the split are on both sides"
	case c.aloneCanary:
		return text + plural.Word(c.aloneCanary, "it is", "they are") + " new, and too few of the baseline's shards are"
	}
	return text + plural.Of(c.aloneNew, "is", "are") + " new, and too few shards of each kind are on both sides"
}

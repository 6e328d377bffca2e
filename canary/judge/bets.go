// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// minute is the current minute: the requests of both sides, the bad ones of the canary and of both, and
// how many of these are the canary's on average, at most, if it is within the tolerance.
type minute struct {
	Long     time.Duration `json:"long,omitempty"`
	Canary   float64       `json:"canary,omitempty"`
	Baseline float64       `json:"baseline,omitempty"`
	Own      float64       `json:"own,omitempty"`
	Bad      float64       `json:"bad,omitempty"`
	Most     float64       `json:"most,omitempty"`
}

func (u *minute) add(m Metric, t table) {
	bad := t.canary.K + t.baseline.K
	u.Canary += t.canary.N
	u.Baseline += t.baseline.N
	u.Own += t.canary.K
	u.Bad += bad
	u.Most += bad * part(t.canary.N, t.baseline.N, m.MaxOddsRatio)
}

// part returns the largest expected part of the bad requests at the canary, if its odds are the given
// multiple of the baseline's.
func part(canary, baseline, odds float64) float64 { return odds * canary / (odds*canary + baseline) }

// bet bets on the finished minute, once per alternative. On average at most s₀ of its bad requests are
// the canary's, however they cluster, if they are equally likely at any pod. So each bet is at best fair
// (Waudby-Smith and Ramdas, JRSS B 2024). The stake uses only earlier data.
func (c *clusters) bet(m Metric, spread float64) {
	u := c.Minute
	c.Minute = minute{}
	if u.Bad == 0 {
		return
	}
	grid := failGrid(m.MaxOddsRatio)
	if c.Bets == nil {
		c.Bets, c.Plain = make([]float64, len(grid)), make([]float64, len(stakes))
	}
	result := u.Own/u.Most - 1
	s0, s := u.Most/u.Bad, part(u.Canary, u.Baseline, m.MaxOddsRatio)
	single := (1 - s0) / s0
	variance := min(single/u.Bad*max(spread, (c.Surprise+2)/float64(c.Minutes+2)), single*spread)
	for i, alternative := range grid {
		gain := part(u.Canary, u.Baseline, alternative)/s - 1
		// This stake grows the winnings almost fastest if the alternative holds.
		stake := gain / (variance + (1-1/u.Bad)*gain*gain)
		c.Bets[i] += math.Log1p(min(mostStake, stake) * result)
	}
	for i, stake := range stakes {
		c.Plain[i] += math.Log1p(stake * result)
	}
	c.Surprise += result * result * u.Bad / single
	c.Minutes++
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// valuesByKey sorts by key, so that sums over the values are reproducible.
func valuesByKey[K cmp.Ordered, V any](m map[K]V) []V {
	out := make([]V, 0, len(m))
	for _, k := range sortedKeys(m) {
		out = append(out, m[k])
	}
	return out
}

package judge

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
)

// Bounds of what is kept of shards: a run must fit into an object of Kubernetes.
const (
	// MaxShards that a run remembers. Which, depends on their names alone.
	MaxShards = 512
	// longestName of a shard that is kept as it is.
	longestName = 32
)

// ShardSlowBound is the time in seconds above which a shard's request counts as slow:
// the only one that shards are counted by.
const ShardSlowBound = 0.5

// shard is what one shard did before the split, on the canary and on the baseline:
// finished, errors and slow of each, as bare numbers to be short.
type shard [9]float64

// Where a side's three numbers begin in a shard.
const (
	beforeSide   = 0
	canarySide   = 3
	baselineSide = 6
)

func (s *shard) add(side int, c Counts) {
	finished := whole(c.Finished, c.Errors)
	slow := whole(c.Finished, c.Slow)
	s[side] += finished.N
	s[side+1] += finished.K
	s[side+2] += slow.K
}

// tally of a side, by what counts as bad.
func (s *shard) tally(side int, kind MetricKind) tally {
	if kind == Errors {
		return tally{N: s[side], K: s[side+1]}
	}
	return tally{N: s[side], K: s[side+2]}
}

// shards are all that a run knows of them.
type shards struct {
	Counts map[string]*shard `json:"counts,omitempty"`
	// Ignored is the most that one window had and could not be kept.
	Ignored int `json:"ignored,omitempty"`
}

// of finds a shard, or makes room for it; nil if there is none.
func (s *shards) of(name string) *shard {
	if len(name) > longestName {
		h := fnv.New64a()
		_, _ = h.Write([]byte(name)) // A hash cannot fail.
		name = "#" + strconv.FormatUint(h.Sum64(), 16)
	}
	if s.Counts[name] == nil {
		if len(s.Counts) >= MaxShards {
			return nil
		}
		if s.Counts == nil {
			s.Counts = map[string]*shard{}
		}
		s.Counts[name] = &shard{}
	}
	return s.Counts[name]
}

func (s *shards) begin(before map[string]Counts) {
	ignored := 0
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if kept := s.of(name); kept != nil {
			kept.add(beforeSide, before[name])
			continue
		}
		ignored++
	}
	s.Ignored = max(s.Ignored, ignored)
}

func (s *shards) add(window map[string]ShardWindow) {
	ignored := 0
	for _, name := range slices.Sorted(maps.Keys(window)) {
		kept := s.of(name)
		if kept == nil {
			ignored++
			continue
		}
		kept.add(canarySide, window[name].Canary)
		kept.add(baselineSide, window[name].Baseline)
	}
	s.Ignored = max(s.Ignored, ignored)
}

// census is how many shards can be compared, and why others cannot.
type census struct {
	canary, baseline, moved int
	// levels: too few have a history, so that rates are compared, not changes.
	levels bool
}

func (s *shards) census(least int) census {
	var c, changed census
	for _, one := range s.Counts {
		onCanary, onBaseline := one[canarySide] > 0, one[baselineSide] > 0
		known := one[beforeSide] > 0
		switch {
		case onCanary && onBaseline:
			c.moved++
		case onCanary:
			c.canary++
			if known {
				changed.canary++
			}
		case onBaseline:
			c.baseline++
			if known {
				changed.baseline++
			}
		}
	}
	changed.moved = c.moved
	if changed.enough(least) || changed == c {
		return changed
	}
	c.levels = true
	return c
}

func (c census) enough(least int) bool { return c.canary >= least && c.baseline >= least }

// missing is how many more the canary needs so that a proof is possible at all, and
// how many more the baseline does.
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
	text := fmt.Sprintf("%d shards of the canary compared with %d of the baseline", c.canary, c.baseline)
	if c.levels {
		text += " by their rates alone, because what they did before the split is not known"
	}
	if c.moved > 0 {
		text += fmt.Sprintf("; %d left out that both have handled", c.moved)
	}
	return text
}

// scores are what is permuted: how much the rate of bad requests of each shard has
// changed since the split. The odds of the canary's are divided by a ratio, so that a
// canary with just that ratio looks like the baseline: then high scores speak for
// more, and low ones for less.
//
// A shard that both sides have handled says nothing of either and is left out.
func (s *shards) scores(kind MetricKind, ratio float64, levels bool) split {
	var out split
	for _, name := range slices.Sorted(maps.Keys(s.Counts)) {
		one := s.Counts[name]
		c, b, before := one.tally(canarySide, kind), one.tally(baselineSide, kind), one.tally(beforeSide, kind)
		if levels {
			before = tally{}
		} else if before.N == 0 {
			continue
		}
		switch {
		case c.N > 0 && b.N == 0:
			out.canary = append(out.canary, c.reduced(ratio)-before.rate())
		case b.N > 0 && c.N == 0:
			out.baseline = append(out.baseline, b.rate()-before.rate())
		}
	}
	return out
}

// reduced is the rate whose odds are those of the tally, divided by a ratio.
func (t tally) reduced(by float64) float64 {
	p := t.rate()
	return p / (p + by*(1-p))
}

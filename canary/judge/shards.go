// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
)

// Limits of the stored shards, because a run must fit into a Kubernetes object.
const (
	// MaxShards is how many shards a run remembers. Only their names decide which.
	MaxShards = 512
	// longestName is the longest shard name that is stored as it is.
	longestName = 32
)

// ShardSlowBound is the time in seconds above which a shard's request counts as slow. It is the only
// bound that shards are counted by.
const ShardSlowBound = 0.5

// shard holds the counts of one shard before the split, on the canary and on the baseline: finished,
// errors and slow, as bare numbers to be short. It also holds the expected errors and slow requests
// since the split at the rate of all shards in each window: for equal odds and for the tolerated ratio.
// The last two say since when it is active on each side.
type shard [15]float64

// column selects what counts as bad among the numbers of a shard.
type column int

const (
	errorColumn column = iota
	slowColumn
	columns = 2
)

// The offset of a side's three numbers in a shard, and of the expected ones.
const (
	beforeSide   = 0
	canarySide   = 3
	baselineSide = 6
	expectedAt   = 9
	toleratedAt  = 11
	activeAt     = 13
)

func (s *shard) add(side int, c Counts) {
	finished := whole(c.Finished, c.Errors)
	slow := whole(c.Finished, c.Slow)
	s[side] += finished.N
	s[side+1] += finished.K
	s[side+2] += slow.K
}

// tally of a side, by what counts as bad.
func (s *shard) tally(side int, at column) tally {
	return tally{N: s[side], K: s[side+1+int(at)]}
}

// tally of one window, by what counts as bad.
func (c Counts) tally(at column) tally {
	return whole(c.Finished, [columns]float64{c.Errors, c.Slow}[at])
}

// byShard reports whether shards count what the metric calls bad.
func (m Metric) byShard() bool {
	_, yes := m.Kind.kind().column(m)
	return yes
}

// shards holds all that a run knows about its shards.
type shards struct {
	Counts map[string]*shard `json:"counts,omitempty"`
	// Ignored is the largest number of shards in one window that could not be kept.
	Ignored int `json:"ignored,omitempty"`
}

// of finds a shard or makes room for it; nil if there is none.
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

// add adds a window. tolerated is the largest odds ratio that a metric of errors, and one of slow
// requests, tolerates; 1 without such a metric.
func (s *shards) add(window map[string]ShardWindow, tolerated [columns]float64) {
	ignored := 0
	var all shard
	for _, one := range window {
		all.add(canarySide, one.Canary)
		all.add(baselineSide, one.Baseline)
	}
	for _, kept := range s.Counts {
		for i := range tolerated {
			if kept[toleratedAt+i] == 0 {
				kept[toleratedAt+i] = kept[expectedAt+i] // An earlier build used only one ratio.
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(window)) {
		kept := s.of(name)
		if kept == nil {
			ignored++
			continue
		}
		var own shard
		own.add(canarySide, window[name].Canary)
		own.add(baselineSide, window[name].Baseline)
		for i := range own {
			kept[i] += own[i]
		}
		for i := range tolerated {
			at := column(i)
			kept.expect(expectedAt+i, own.sides(at), all.sides(at).rates(1))
			kept.expect(toleratedAt+i, own.sides(at), all.sides(at).rates(tolerated[i]))
		}
	}
	s.Ignored = max(s.Ignored, ignored)
}

// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// shardsOf makes known and new shards for each side.
func shardsOf(known, fresh, knownBaseline, freshBaseline int) *shards {
	s := &shards{}
	n := 0
	add := func(count, side int, before bool) {
		for range count {
			one := s.of(fmt.Sprintf("shard/%03d", n))
			n++
			if before {
				one.add(beforeSide, Counts{Finished: 600, Errors: 6})
			}
			one.add(side, Counts{Finished: 600, Errors: 6})
		}
	}
	add(known, canarySide, true)
	add(fresh, canarySide, false)
	add(knownBaseline, baselineSide, true)
	add(freshBaseline, baselineSide, false)
	return s
}

// New shards are compared only with new shards. Those without a counterpart are excluded, counted and
// reported.
func TestNewShardsAreAStratum(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name             string
		of               *shards
		strata           int
		canary, baseline int
		says             string
	}{
		{"all known", shardsOf(5, 0, 20, 0), 1, 5, 20, "5 shards of the canary compared with 20 of the baseline"},
		{"nothing known", shardsOf(0, 5, 0, 20), 1, 5, 20, "by their rates alone, because what they did before the split is not known"},
		{"both kinds on both sides", shardsOf(5, 4, 20, 6), 2, 9, 26, "of which 4 and 6 are new and are compared with each other by their rates alone"},
		{"only the canary has new ones", shardsOf(5, 4, 20, 0), 1, 5, 20, "4 shards of the canary left out: they are new, and too few of the baseline's shards are"},
		{"one known", shardsOf(1, 0, 20, 0), 1, 1, 20, "1 shard of the canary compared with 20 of the baseline"},
		{"only one is new", shardsOf(5, 1, 20, 0), 1, 5, 20, "1 shard of the canary left out: it is new, and too few of the baseline's shards are"},
		{"the canary has nothing else", shardsOf(0, 20, 80, 0), 0, 0, 0, "no shards can be compared; 20 shards of the canary left out: they are new"},
		{"too few new ones", shardsOf(5, 2, 20, 3), 1, 5, 20, "2 shards of the canary left out"},
		{"few known ones are no reason to compare all by rates", shardsOf(2, 8, 3, 30), 1, 8, 30, "2 shards of the canary left out: too few of those that were there before the split"},
		{"nothing has a counterpart", shardsOf(3, 5, 0, 0), 0, 0, 0, "8 shards of the canary left out: 5 are new"},
	} {
		strata, c := tc.of.strata(3)
		if len(strata) != tc.strata || c.canary != tc.canary || c.baseline != tc.baseline || !strings.Contains(c.String(), tc.says) {
			t.Errorf("%s: %d strata, %d and %d shards: %s", tc.name, len(strata), c.canary, c.baseline, c)
		}
	}
}

// If all shards of the canary are new and worse, they say nothing about it: neither Fail nor Pass, and
// the message says why.
func TestShardsWithoutCounterpartAreInsufficient(t *testing.T) {
	t.Parallel()
	before := map[string]Counts{}
	for s := 20; s < 100; s++ {
		before[fmt.Sprint(s)] = Counts{Finished: 600, Errors: 6}
	}
	run := Start(epoch, before)
	for i := 0; run.Last.Verdict == verdict.Running; i++ {
		w := at(i, arm(200, 20), arm(800, 8))
		w.Shards = map[string]ShardWindow{}
		for s := range 100 {
			if s < 20 {
				w.Shards[fmt.Sprint(s)] = ShardWindow{Canary: Counts{Finished: 10, Errors: 1}}
			} else {
				w.Shards[fmt.Sprint(s)] = ShardWindow{Baseline: Counts{Finished: 10, Errors: float64((s + i) % 10 / 9)}}
			}
		}
		run.Analyze(shardedPlan(), w)
	}
	if got := run.Last; got.Verdict != verdict.Inconclusive || got.Metrics[0].Reason != verdict.InsufficientShards || !strings.Contains(got.Message, "they are new, and too few of the baseline's shards are") {
		t.Errorf("got %s %v: %s", got.Verdict, got.Reasons, got.Message)
	}
}

// The spending of the analyses sums to one, in proportion to the time that has passed, even if some
// were skipped.
func TestAnalysesSpendInProportionToTime(t *testing.T) {
	t.Parallel()
	for looked, want := range []float64{0, 1. / 16, 1. / 8, 1. / 4, 1. / 2, 1} {
		near(t, fmt.Sprint(looked, " analyses"), spent(looked), want, 0)
	}
	near(t, "the last analysis", spent(maxAnalyses)-spent(maxAnalyses-1), lastAnalysis, 0)
}

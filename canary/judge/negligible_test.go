// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"strconv"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// A negligible canary does not fail by comparison, however clearly it is worse and however late it may
// pass. One that is no longer negligible does.
func TestNegligibleIsNotCompared(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bad  func(window int) float64
		want verdict.Verdict
		why  verdict.Reason
	}{
		"0.05 % to nothing":                      {func(int) float64 { return 2 }, verdict.Pass, verdict.Negligible},
		"nothing, and 5 % from the third minute": {func(i int) float64 { return map[bool]float64{true: 200}[i >= 2] }, verdict.Fail, verdict.RelativeRegression},
	} {
		p := errorsOnly()
		p.MinDuration = 7 * p.MinDuration / 2
		run := Start(epoch, nil)
		for i := 0; run.Last.Verdict == verdict.Running && i < 400; i++ {
			run.Analyze(p, at(i, arm(4000, c.bad(i)), arm(16000, 0)))
		}
		if run.Last.Verdict != c.want || run.Last.Metrics[0].Reason != c.why {
			t.Errorf("%s: %s (%s) after %s", name, run.Last.Verdict, run.Last.Metrics[0].Reason, run.Evidence.Until.Sub(epoch))
		}
	}
}

// A busy shard without errors makes the canary's requests negligible. It does not hide that all its other
// shards are worse. If the others are negligible, too, it does not matter how busy it is.
func TestABusyShardDoesNotHideTheOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		busy, bad float64
		want      verdict.Reason
	}{
		"all others fail 5 %":               {20000, 3, verdict.RelativeRegression},
		"and it has nearly all requests":    {90000, 3, verdict.RelativeRegression},
		"all others fail 0.2 %":             {20000, 0.12, verdict.Negligible},
		"it fails a little, and no other":   {20000, 0, verdict.Negligible},
		"no shard is busy, 0.2 % are wrong": {60, 0.12, verdict.Negligible},
	} {
		p, before := shardedPlan(), map[string]Counts{}
		for i := range 40 {
			before[strconv.Itoa(i)] = Counts{Finished: 20000}
		}
		run := Start(epoch, before)
		for i := 0; run.Last.Verdict == verdict.Running && i < 120; i++ {
			shards := map[string]ShardWindow{}
			var canary, baseline Arm
			for s := range 40 {
				var w ShardWindow
				switch {
				case s == 0:
					w.Canary = Counts{Finished: c.busy, Errors: math.Floor(c.busy / 2000)}
				case s < 13:
					// A fraction is an error in some windows.
					w.Canary = Counts{Finished: 60, Errors: math.Floor(c.bad*float64(i+1)) - math.Floor(c.bad*float64(i))}
				default:
					w.Baseline = Counts{Finished: 200}
				}
				shards[strconv.Itoa(s)] = w
				canary.Finished, canary.Errors = canary.Finished+w.Canary.Finished, canary.Errors+w.Canary.Errors
				baseline.Finished += w.Baseline.Finished
			}
			w := at(i, canary, baseline)
			w.Shards = shards
			run.Analyze(p, w)
		}
		if m := run.Last.Metrics[0]; m.Reason != c.want {
			t.Errorf("%s: %s (%s) after %s, %.2f %% of the canary's", name, run.Last.Verdict, m.Reason, run.Evidence.Until.Sub(epoch), 100**m.Canary)
		}
	}
}

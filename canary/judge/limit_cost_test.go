// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// TestTimeOfALimit prints how long a limit takes if nothing else can fail the canary, and asserts that it
// always fails one that is above it.
func TestTimeOfALimit(t *testing.T) {
	t.Parallel()
	runs := manyRuns(40)
	for _, tc := range []struct {
		each, rate float64
		known      bool
		most       time.Duration
	}{
		{10, 0.05, true, time.Hour},
		{10, 0.05, false, time.Hour},
		{50, 0.05, true, 10 * time.Minute},
		{50, 0.05, false, 20 * time.Minute},
		{500, 0.05, true, 3 * time.Minute},
		{500, 0.05, false, 12 * time.Minute},
		{50, 0.3, true, 2 * time.Minute},
		{50, 0.3, false, 7 * time.Minute},
		{50, 1, true, 2 * time.Minute},
		{50, 1, false, 7 * time.Minute},
	} {
		var took []time.Duration
		for seed := range runs {
			rng := rand.New(rand.NewPCG(uint64(seed), 77))
			// Without shards, a sharded Service is not compared.
			p := shardedPlan().withLimit(0.02)
			p.Alpha, p.Deadline, p.MinDuration = p.Alpha/2, 2*time.Hour, time.Hour
			run := Start(epoch, nil)
			if tc.known {
				run.Remember(alike())
			}
			for i := 0; run.Last.Verdict == verdict.Running; i++ {
				w := at(i, arm(tc.each, binomial(rng, tc.each, tc.rate)), arm(9*tc.each, binomial(rng, 9*tc.each, 0.001)))
				w.From = epoch.Add(time.Duration(i) * 15 * time.Second)
				w.To = w.From.Add(15 * time.Second)
				run.Analyze(p, w)
			}
			if run.Last.Verdict != verdict.Fail {
				t.Errorf("%+v: %s: %s", tc, run.Last.Verdict, run.Last.Message)
			}
			took = append(took, run.Last.To.Time().Sub(epoch))
		}
		slices.Sort(took)
		median, most := took[len(took)/2], took[len(took)*9/10]
		t.Logf("%.0f requests a minute, %.0f %% bad, history %v: %s, nine in ten %s", 4*tc.each, 100*tc.rate, tc.known, median, most)
		if most > tc.most {
			t.Errorf("%+v: nine in ten take %s", tc, most)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math/rand/v2"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// The Route gives the canary a fifth, and its pods see fewer requests: the others ended in front of them.
// Such a canary never passes, and a healthy one does, also where clients send their requests in bursts.
func TestRequestsThatEndBeforeThePods(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lost  float64
		burst float64
		entry bool
		want  verdict.Verdict
	}{
		"none":                        {0, 1, false, verdict.Pass},
		"none, bursts":                {0, 8, false, verdict.Pass},
		"30 %":                        {0.3, 1, false, verdict.Inconclusive},
		"30 %, bursts":                {0.3, 8, false, verdict.Inconclusive},
		"60 %":                        {0.6, 1, false, verdict.Inconclusive},
		"90 %":                        {0.9, 1, false, verdict.Inconclusive},
		"none, by entry":              {0, 1, true, verdict.Pass},
		"60 %, by entry of a sharded": {0.6, 1, true, verdict.Inconclusive},
	} {
		wrong, runs := 0, manyRuns(60)
		for n := range runs {
			rng := rand.New(rand.NewPCG(2226, uint64(n)))
			p := errorsOnly()
			p.Sharded = c.entry
			run := Start(epoch, nil)
			for i := 0; run.Last.Verdict == verdict.Running; i++ {
				got := c.burst * poisson(rng, 100*(1-c.lost)/c.burst)
				others := c.burst * poisson(rng, 400/c.burst)
				w := at(i, arm(got, 0), arm(others, 0))
				w.Required, w.Handled = 0.2, got/max(1, got+others)
				if c.entry {
					w.Canary, w.Baseline, w.Handled = arm(100, 0), arm(400, 0), 0.2
					w.Canary.Entered, w.Baseline.Entered, w.Entered = got, others, got/max(1, got+others)
				}
				run.Analyze(p, w)
			}
			if run.Last.Verdict != c.want {
				wrong++
			}
		}
		if wrong*100 > runs {
			t.Errorf("%s: %d of %d are not %s", name, wrong, runs, c.want)
		}
	}
}

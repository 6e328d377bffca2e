package judge

import (
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

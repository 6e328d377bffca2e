package judge

import (
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// The warm-up is not judged, even if the window ends with it.
func TestWarmupIsNotJudged(t *testing.T) {
	t.Parallel()
	at := time.Unix(1.8e9, 0)
	p := errorsOnly()
	p.Warmup = 30 * time.Second
	r := Start(at, nil)
	look := func(from, to time.Duration, restarts float64) Judgement {
		w := Window{From: at.Add(from), To: at.Add(to), Canary: arm(100, 0), Baseline: arm(900, 0), Required: .1, Handled: .1}
		w.Canary.Restarts = restarts
		return r.Analyze(p, w)
	}
	if j := look(0, 15*time.Second, 1); j.Verdict != verdict.Running || j.Canary.Requests != 0 {
		t.Errorf("%+v", j)
	}
	if j := look(15*time.Second, 45*time.Second, 1); j.Verdict != verdict.Running || j.Canary.Requests != 0 {
		t.Errorf("a window that began in the warm-up: %+v", j)
	}
	if j := look(45*time.Second, 60*time.Second, 1); j.Verdict != verdict.Fail {
		t.Errorf("%+v", j)
	}
}

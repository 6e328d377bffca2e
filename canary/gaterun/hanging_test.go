// SPDX-License-Identifier: Apache-2.0

package gaterun_test

import (
	"slices"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/test/stage"
)

// A canary that lets a twentieth of its requests hang does not pass because the rest is faultless. It
// fails within three minutes, long before the request timeout.
func TestAHangingCanaryFails(t *testing.T) {
	t.Parallel()
	for hangs, want := range map[float64]verdict.Verdict{0: verdict.Pass, 8: verdict.Fail} {
		p := begin(t, true, v1alpha1.CanaryGateSpec{}, 0)
		p.judges = (*judge.Run).Analyze
		steps := 0
		for ; steps < 60; steps++ {
			p.pass(15 * time.Second).step()
			if p.run.CompletionTime != nil {
				break
			}
			p.Hang(stage.Canary, hangs)
			p.Enter(stage.Canary, 150, 0)
			p.Enter(stage.Baseline, 1350, 0)
			p.Serve(stage.Baseline, 1350, 0)
			p.Serve(stage.Canary, 150-hangs, 0)
		}
		if p.run.Verdict != want {
			t.Errorf("%v of 150 hang: %s %q: %s", hangs, p.run.Verdict, p.run.Reasons, p.run.Message)
		}
		if hangs > 0 && (steps > 13 || !slices.Contains(p.run.Reasons, string(verdict.HangingRequests))) {
			t.Errorf("after %d steps: %q", steps, p.run.Reasons)
		}
	}
}

// An ordinary Service does not count open requests, and hanging ones show at their timeout. A Pass
// waits for that.
func TestAnOrdinaryCanaryPassesAfterTheRequestTimeout(t *testing.T) {
	t.Parallel()
	p := begin(t, false, v1alpha1.CanaryGateSpec{}, 0)
	p.judges = (*judge.Run).Analyze
	steps := 0
	for ; steps < 60 && p.run.CompletionTime == nil; steps++ {
		p.pass(15 * time.Second).step()
		p.Serve(stage.Canary, 200, 0)
		p.Serve(stage.Baseline, 1800, 0)
	}
	// Five minutes, plus the warm-up of three.
	if took := p.run.CompletionTime.Sub(p.run.StartTime.Time); p.run.Verdict != verdict.Pass || took < 7*time.Minute || took > 9*time.Minute {
		t.Errorf("%s after %s: %s", p.run.Verdict, took, p.run.Message)
	}
}

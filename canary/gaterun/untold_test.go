// SPDX-License-Identifier: Apache-2.0

package gaterun_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/test/stage"
)

// Requests over HTTP/2 whose outcome stays unknown count in their own window. Before the run, or as one of thousands,
// they do not keep a gate from its verdict; as a part of the traffic that might hide errors, they do.
func TestUnknownOutcomesDoNotLast(t *testing.T) {
	t.Parallel()
	type step func(p *play, i int)
	for name, c := range map[string]struct {
		before, each step
		want         verdict.Verdict
		reason       string
	}{
		"before the run": {func(p *play, _ int) { p.Answer(stage.Canary, mapping.Unknown, 50) }, nil, verdict.Pass, "Negligible"},
		"one of both in the run": {nil, func(p *play, i int) {
			if i == 3 {
				p.Answer(stage.Canary, mapping.Unknown, 1)
				p.Answer(stage.Baseline, mapping.Unknown, 1)
			}
		}, verdict.Pass, "Negligible"},
		"a window of them": {nil, func(p *play, i int) {
			if i == 3 {
				p.Answer(stage.Canary, mapping.Unknown, 100)
			}
		}, verdict.Pass, "Negligible"},
		"a twentieth": {nil, func(p *play, _ int) {
			p.Answer(stage.Canary, mapping.Unknown, 15)
			p.Answer(stage.Baseline, mapping.Unknown, 90)
		}, verdict.Inconclusive, "NoData"},
		"all of the canary's": {nil, func(p *play, _ int) { p.Answer(stage.Canary, mapping.Unknown, 9000) }, verdict.Inconclusive, "OutcomesUnknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := v1alpha1.CanaryGateSpec{GatePolicy: v1alpha1.GatePolicy{Metrics: []v1alpha1.GateMetric{{Type: v1alpha1.MetricErrorRate}}}}
			p := begin(t, false, spec, 0)
			p.judges = (*judge.Run).Analyze
			if c.before != nil {
				c.before(p, 0)
			}
			p.step()
			for i := 0; i < 130 && p.run.CompletionTime == nil; i++ {
				p.Serve(stage.Canary, 300, 0)
				p.Serve(stage.Baseline, 1800, 0)
				if c.each != nil {
					c.each(p, i)
				}
				p.pass(15 * time.Second).step()
			}
			if p.run.Verdict != c.want || !slices.Contains(p.run.Reasons, c.reason) {
				t.Errorf("%s %q: %s", p.run.Verdict, p.run.Reasons, p.run.Message)
			}
			if c.want == verdict.Pass && strings.Contains(p.run.Message, "not known for certain") {
				t.Error(p.run.Message)
			}
		})
	}
}

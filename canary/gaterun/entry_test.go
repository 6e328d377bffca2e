// SPDX-License-Identifier: Apache-2.0

package gaterun_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/test/stage"
)

// With the gate's defaults, a stateful canary fails if its entry layer answers 500, even if its pods
// handle well.
func TestStatefulCanaryIsJudgedByItsEntryToo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bad  float64
		want verdict.Verdict
	}{{0, verdict.Pass}, {20, verdict.Fail}, {200, verdict.Fail}} {
		p := begin(t, true, v1alpha1.CanaryGateSpec{}, 0)
		p.judges = (*judge.Run).Analyze
		for range 60 {
			p.Serve(stage.Canary, 200, 0)
			p.Serve(stage.Baseline, 1800, 0)
			p.Enter(stage.Canary, 200-c.bad, c.bad)
			p.Enter(stage.Baseline, 1800, 0)
			if p.pass(15 * time.Second).step(); p.run.CompletionTime != nil {
				break
			}
		}
		if p.run.Verdict != c.want {
			t.Errorf("%v of 200 failed at entry: %s %q: %s", c.bad, p.run.Verdict, p.run.Reasons, p.run.Message)
		}
	}
}

// If requests are handled where they enter, entry is not judged a second time.
func TestEntryIsJudgedOnce(t *testing.T) {
	t.Parallel()
	dry := v1alpha1.GateMetric{Type: v1alpha1.MetricErrorRate, DryRun: true}
	for name, c := range map[string]struct {
		metrics []v1alpha1.GateMetric
		sharded bool
		judged  string
	}{
		"stateful":              {nil, true, "ErrorRate EntryErrors ClientErrors SlowRequests"},
		"ordinary":              {nil, false, "ErrorRate ClientErrors SlowRequests"},
		"ordinary, entry alone": {[]v1alpha1.GateMetric{{Type: v1alpha1.MetricEntryErrors}}, false, "EntryErrors"},
		"ordinary, errors dry":  {[]v1alpha1.GateMetric{dry, {Type: v1alpha1.MetricEntryErrors}}, false, "ErrorRate EntryErrors"},
	} {
		spec := &v1alpha1.CanaryGateSpec{Service: "cart", GatePolicy: v1alpha1.GatePolicy{Metrics: c.metrics}}
		spec.SetDefaults(t.Context())
		if wrong := spec.Validate(t.Context()); wrong != nil {
			t.Errorf("%s: %v", name, wrong)
		}
		var names []string
		for _, m := range gaterun.Plan(spec, c.sharded, time.Hour).Metrics {
			names = append(names, m.Name)
		}
		if !slices.Equal(names, strings.Fields(c.judged)) {
			t.Errorf("%s: %q", name, names)
		}
	}
}

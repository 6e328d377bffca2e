// SPDX-License-Identifier: Apache-2.0

package gaterun_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/test/stage"
)

// misdeclared provides counts of Revisions whose cluster annotations are wrong.
type misdeclared struct{ gaterun.Counts }

func (m misdeclared) Figure(service types.NamespacedName) (attribution.Figures, bool) {
	f, ok := m.Counts.Figure(service)
	for _, r := range f.Revisions {
		for _, figure := range []string{"handled_requests_total", "handled_request_duration_seconds"} {
			f.NoData = append(f.NoData, attribution.NoData{Revision: r.UID, Figure: figure, Reason: attribution.InvalidAnnotations, Detail: "it has outcome=success"})
		}
	}
	return f, ok
}

// A request that entered without an error may have failed in another Revision, so there is no Pass.
func TestMisdeclaredRevisionsNeverPass(t *testing.T) {
	t.Parallel()
	now := time.Unix(1.8e9, 0)
	s := stage.New(cart, false, func() time.Time { return now })
	run, err := gaterun.Open(t.Context(), gaterun.Opening{Namespace: cart.Namespace, ID: "run-1", Spec: &v1alpha1.CanaryGateSpec{Service: cart.Name}, Start: now})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if run.Done() {
			break
		}
		m := gaterun.Moment{Now: now, Counts: misdeclared{s}, Analyze: (*judge.Run).Analyze}
		m.Service, m.Known = s.Service(cart)
		if err := run.Step(m); err != nil {
			t.Fatal(err)
		}
		now = now.Add(15 * time.Second)
		s.Serve(stage.Canary, 100, 0)
		s.Serve(stage.Baseline, 900, 0)
	}
	if run.GateRun.Verdict != "Inconclusive" || !slices.Contains(run.GateRun.Reasons, string(attribution.InvalidAnnotations)) {
		t.Errorf("%s %v: %s", run.GateRun.Verdict, run.GateRun.Reasons, run.GateRun.Message)
	}
	if !strings.Contains(run.GateRun.Message, "(it has outcome=success)") {
		t.Errorf("what was seen is not said: %s", run.GateRun.Message)
	}
}

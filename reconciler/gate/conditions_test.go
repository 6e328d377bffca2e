// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// figured returns constant figures.
type figured struct {
	gaterun.Counts
	attribution.Figures
}

func (f figured) Figure(types.NamespacedName) (attribution.Figures, bool) { return f.Figures, true }

// The gate's status shows which figures are missing, and what to do about it.
func TestMeasured(t *testing.T) {
	t.Parallel()
	// The third Revision is the newest, and has no traffic yet.
	service := &gaterun.Service{Route: lifecycle.Route{Traffic: lifecycle.Split{{Revision: "cart-2", Percent: 100}}}, Revisions: map[string]*lifecycle.Revision{
		"cart-1": {UID: "r1", Name: "cart-1", Generation: 1}, "cart-2": {UID: "r2", Name: "cart-2", Generation: 2}, "cart-3": {UID: "r3", Name: "cart-3", Generation: 3},
	}}
	const handled, took = "handled_requests_total", "handled_request_duration_seconds"
	for name, c := range map[string]struct {
		missing attribution.NoData
		bounds  []float64
		reason  string // empty if it is measured
		says    string
	}{
		"request metrics are off":  {attribution.NoData{Revision: "r2", Figure: handled, Reason: attribution.EntryMetricsUnavailable}, nil, "EntryMetricsUnavailable", `-p '{"data":{"request-metrics-protocol":"prometheus"}}'`},
		"seen at the new one":      {attribution.NoData{Revision: "r3", Figure: handled, Reason: attribution.EntryMetricsUnavailable}, nil, "EntryMetricsUnavailable", "cart-3"},
		"an old one":               {attribution.NoData{Revision: "r1", Figure: handled, Reason: attribution.EntryMetricsUnavailable}, nil, "", ""},
		"not read before traffic":  {attribution.NoData{Revision: "r3", Figure: handled, Reason: attribution.NotRead}, nil, "", ""},
		"outcomes in other words":  {attribution.NoData{Revision: "r2", Figure: handled, Reason: attribution.OutcomesUnknown, Detail: `it has outcome="success"; known values are ok`}, nil, "OutcomesUnknown", `outcome="success"; known values are ok`},
		"other buckets":            {attribution.NoData{Revision: "r2", Figure: took, Reason: attribution.BucketsDiffer}, []float64{.25, 1}, "BucketsDiffer", ""},
		"others, and the one used": {attribution.NoData{Revision: "r2", Figure: took, Reason: attribution.BucketsDiffer}, []float64{.25, .5}, "", ""},
	} {
		figures := attribution.Figures{NoData: []attribution.NoData{c.missing}, Revisions: []attribution.RevisionFigures{{Revision: attribution.Revision{Revision: &lifecycle.Revision{UID: "r2"}}, Bounds: c.bounds}}}
		l := &gateSync{
			gates: &gates{Gate: &Gate{Options: Options{Counts: figured{Figures: figures}}}},
			gate:  &v1alpha1.CanaryGate{Spec: v1alpha1.CanaryGateSpec{Service: "cart"}}, spec: &v1alpha1.CanaryGateSpec{Service: "cart"},
		}
		l.spec.SetDefaults(t.Context())
		manager := conditionSet.Manage(&l.status.Status)
		l.measured(manager, service)
		got := manager.GetCondition(v1alpha1.GateMeasured)
		if got.IsTrue() != (c.reason == "") || got.Reason != c.reason || !strings.Contains(got.Message, c.says) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// An invalid spec says nothing about the Service, and no run begins until it is mended. Then the split is judged.
func TestInvalidSpec(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.put(t, gatePath, watching)
	h.Split(10)
	g := h.process()
	right := h.get(gatePath)
	h.put(t, gatePath, strings.Replace(right, `"watch":true`, `"watch":true,"failOn":["Warn"]`, 1))
	h.look(g)
	is := h.gate().Status
	for of, want := range map[apis.ConditionType]string{v1alpha1.GateValid: "False InvalidSpec", v1alpha1.GateServiceFound: "True Split"} {
		if c := is.GetCondition(of); string(c.Status)+" "+c.Reason != want {
			t.Errorf("%s: %+v, want %s", of, c, want)
		}
	}
	// Nothing is counted yet either, and Ready has one of the two reasons.
	if is.Run != nil || !is.GetCondition(apis.ConditionReady).IsFalse() || !strings.Contains(is.GetCondition(v1alpha1.GateValid).Message, "spec.failOn") {
		t.Errorf("%+v", is)
	}
	h.put(t, gatePath, strings.Replace(h.get(gatePath), `"failOn":["Warn"]`, `"failOn":["Fail"]`, 1))
	h.look(g)
	if is = h.gate().Status; !is.GetCondition(v1alpha1.GateValid).IsTrue() || is.Run == nil {
		t.Errorf("%+v", is)
	}
}

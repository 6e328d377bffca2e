package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

func TestWhatGatesKnowOfAService(t *testing.T) {
	t.Parallel()
	snapshot := lifecycle.Snapshot{
		Ready: true,
		Route: &lifecycle.Route{Effective: true, Rollout: true, Traffic: []lifecycle.Share{{Revision: "cart-1", Percent: 90}, {Revision: "cart-2", Percent: 10}}},
		Revisions: map[string]lifecycle.Revision{
			"cart-1": {Name: "cart-1", UID: "r1", Generation: 1, Stateful: "pekko"}, "cart-2": {Name: "cart-2", UID: "r2", Generation: 2}, "cart-3": {Name: "cart-3", UID: "r3", Generation: 3},
		},
	}
	s, _ := sceneOf(&fakePods{}, snapshot)
	if _, known := s.service(cartKey); known {
		t.Error("something is known before the caches are complete")
	}
	s.saw(cartKey, observer.Part{Value: &lifecycle.Cluster{ClusterSeen: lifecycle.ClusterSeen{State: lifecycle.ClusterReady}}})
	got := s.seen(cartKey, &observer.Subject{UID: "u", Snapshot: snapshot})
	byName := map[string]gaterun.Revision{}
	for _, r := range got.Revisions {
		byName[r.Name] = r
	}
	want := map[string]gaterun.Revision{
		"cart-1": {Name: "cart-1", UID: "r1", Generation: 1, Percent: 90, Stateful: true},
		"cart-2": {Name: "cart-2", UID: "r2", Generation: 2, Percent: 10},
		"cart-3": {Name: "cart-3", UID: "r3", Generation: 3},
	}
	if diff := cmp.Diff(want, byName); diff != "" || got.UID != "u" || !got.Settled || !got.Effective || !got.Rollout || !got.Moving {
		t.Errorf("%+v %s", got, diff)
	}
	s.saw(cartKey, observer.Part{})
	if got := s.seen(cartKey, &observer.Subject{}); got.Effective || got.Moving {
		t.Errorf("of a Service without a Route: %+v", got)
	}
}

func TestVerdictOfARun(t *testing.T) {
	t.Parallel()
	at := metav1.NewTime(time.Unix(1.8e9, 0))
	run := &v1alpha1.GateRun{
		ID: "1", Gate: "strict", Canary: v1alpha1.GateObject{Name: "c"}, Baseline: &v1alpha1.GateObject{Name: "b"}, Verdict: "Inconclusive",
		Reasons: []string{gate.Cancelled, "DryRun"}, StartTime: at, CompletionTime: &at,
		Report: &runtime.RawExtension{Raw: []byte(`{"score":50,"coverage":1,"canary":{"requests":3},"baseline":{"requests":9},"metrics":[{"name":"m","verdict":"Pass"}]}`)},
	}
	want := lifecycle.Verdict{
		Run: "1", Gate: "strict", Verdict: "Inconclusive", Reasons: run.Reasons, DryRun: true, Cancelled: true, Canary: "c", Baseline: "b",
		Score: 50, Coverage: 1, CanaryRequests: 3, BaselineRequests: 9, Started: at.Time, Completed: at.Time,
		Metrics: []lifecycle.VerdictMetric{{Name: "m", Verdict: "Pass"}},
	}
	if diff := cmp.Diff(want, verdictOf(run)); diff != "" {
		t.Error(diff)
	}
	run.Report = nil
	if v := verdictOf(run); v.Run != "1" || v.Metrics != nil {
		t.Errorf("without a report: %+v", v)
	}
}

// SPDX-License-Identifier: Apache-2.0

package gaterun

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// What young pods did is told apart, by their age when the window began, on both sides. A pod of unknown age is not
// young.
func TestYoungPodsAreToldApart(t *testing.T) {
	t.Parallel()
	const warmup = 3 * time.Minute
	from := time.Unix(1.8e9, 0)
	tally := func(ok, failed float64) attribution.Tally {
		return attribution.Tally{
			Entered:  map[string]float64{"200": ok, "500": failed},
			Finished: map[string]float64{mapping.OK: ok, mapping.Error: failed},
			Shards:   map[attribution.ShardKey]attribution.Shard{{Shard: "7"}: {OK: ok, Error: failed}},
		}
	}
	pod := func(revision types.UID, since time.Time, ok, failed float64) attribution.PodTally {
		return attribution.PodTally{Revision: revision, Since: since, Tally: tally(ok, failed)}
	}
	for _, stateful := range []bool{false, true} {
		b := counting(stateful, tally(100, 10), tally(900, 9))
		b.from, b.warmup = from, warmup
		b.delta.Pods = map[types.UID]attribution.PodTally{
			"canary-old":         pod("c", from.Add(-warmup), 30, 1),
			"canary-young":       pod("c", from.Add(-warmup+time.Second), 40, 4),
			"canary-begins":      pod("c", from.Add(5*time.Second), 20, 5),
			"canary-unknown":     pod("c", time.Time{}, 10, 0),
			"baseline-old":       pod("b", from.Add(-time.Hour), 600, 6),
			"baseline-young":     pod("b", from.Add(-time.Minute), 300, 3),
			"elsewhere-is-young": pod("x", from, 7, 7),
		}
		w := b.window("c", "b")
		if y := w.Young.Canary; y.Finished != 69 || y.Errors != 9 || y.Codes["500"] != 9 {
			t.Errorf("stateful %v: the canary's young pods: %+v", stateful, y)
		}
		if y := w.Young.Baseline; y.Finished != 303 || y.Errors != 3 {
			t.Errorf("stateful %v: the baseline's young pods: %+v", stateful, y)
		}
		if w.Canary.Finished != 110 || w.Baseline.Finished != 909 {
			t.Errorf("stateful %v: young pods are missing from the sums: %+v", stateful, w.Canary)
		}
		if len(w.Pods) != 1 || w.Pods["baseline-old"].Finished != 606 {
			t.Errorf("stateful %v: the baseline's grown pods: %+v", stateful, w.Pods)
		}
		want := judge.ShardWindow{Canary: judge.Counts{Finished: 41, Errors: 1}, Baseline: judge.Counts{Finished: 606, Errors: 6}}
		if diff := cmp.Diff(want, w.Shards["/7"]); diff != "" {
			t.Errorf("stateful %v: %s", stateful, diff)
		}
	}
}

// Without a limit, restarts are compared; with one, they are counted.
func TestLimitsOfASpec(t *testing.T) {
	t.Parallel()
	none, unaccounted := int64(0), .02
	spec := v1alpha1.CanaryGateSpec{Service: "cart", GatePolicy: v1alpha1.GatePolicy{Limits: &v1alpha1.GateLimits{UnaccountedRatio: &unaccounted}}}
	spec.SetDefaults(t.Context())
	if got, want := Plan(&spec, false, time.Hour).Limits, (judge.Limits{Restarts: -1, CompareRestarts: true, Unaccounted: .02}); got != want {
		t.Errorf("without a limit: %+v", got)
	}
	spec.Limits.Restarts = &none
	if got, want := Plan(&spec, false, time.Hour).Limits, (judge.Limits{Unaccounted: .02}); got != want {
		t.Errorf("with a limit of 0: %+v", got)
	}
}

// A run knows how often the baseline's pods restarted before it.
func TestTheBaselinesRestartsAreRecalled(t *testing.T) {
	t.Parallel()
	now := time.Unix(1.8e9, 0)
	key := types.NamespacedName{Namespace: "shop", Name: "cart"}
	facts := attribution.Facts{
		Revisions: []attribution.Revision{{Revision: &lifecycle.Revision{UID: "b", Name: "cart-1"}}, {Revision: &lifecycle.Revision{UID: "c", Name: "cart-2"}}},
		Pods: []attribution.Pod{
			{UID: "p1", Revision: "b", Running: true, Began: now.Add(-time.Hour), Restarts: 5},
			{UID: "p2", Revision: "c", Running: true, Began: now.Add(-time.Minute), Restarts: 3},
		},
	}
	counts := attribution.NewCounts(func(types.NamespacedName) attribution.Facts { return facts }, func() time.Time { return now })
	counts.Begin(key, false)
	run, err := Open(t.Context(), Opening{Namespace: key.Namespace, ID: "run", Spec: &v1alpha1.CanaryGateSpec{Service: key.Name}, Start: now})
	if err != nil {
		t.Fatal(err)
	}
	service := &Service{
		UID: "s", Settled: true, Route: lifecycle.Route{Effective: true, Traffic: lifecycle.SplitOf(map[string]int64{"cart-1": 90, "cart-2": 10})},
		Revisions: map[string]*lifecycle.Revision{"cart-1": {Name: "cart-1", UID: "b", Generation: 1}, "cart-2": {Name: "cart-2", UID: "c", Generation: 2}},
	}
	for range 3 {
		if err := run.Step(Moment{Now: now, Known: true, Service: service, Counts: counts, Analyze: (*judge.Run).Analyze}); err != nil {
			t.Fatal(err)
		}
	}
	if !run.Gathering() {
		t.Fatal(run.GateRun.Message)
	}
	want := judge.Start(now, nil)
	want.RecallRestarts(5, time.Hour)
	if got := run.evidence.Run.Evidence.Restarted; !reflect.DeepEqual(got, want.Evidence.Restarted) {
		t.Errorf("%+v", got)
	}
}

// How the pods of both sides fared reaches the judge, with the age of the pod, not of its container.
func TestLivesOfAWindow(t *testing.T) {
	t.Parallel()
	from := time.Unix(1.8e9, 0)
	b := counting(false, attribution.Tally{}, attribution.Tally{})
	b.from, b.warmup = from, 3*time.Minute
	b.delta.Lives = map[types.UID]attribution.Life{
		"0123456789-old-of-the-canary": {Revision: "c", Began: from.Add(-time.Hour), Ran: 15 * time.Second, Restarts: 2, CrashLoop: true},
		"young":                        {Revision: "c", Began: from.Add(-time.Minute), Ran: 15 * time.Second},
		"begins":                       {Revision: "b", Began: from.Add(5 * time.Second), Ran: 10 * time.Second, Restarts: 1},
		"unknown":                      {Revision: "b", Ran: 15 * time.Second},
		"elsewhere":                    {Revision: "x", Restarts: 9},
	}
	want := []judge.Life{
		{Pod: "0123456789-ol", Canary: true, Ran: 15 * time.Second, Restarts: 2, CrashLoop: true},
		{Pod: "begins", Young: true, Ran: 10 * time.Second, Restarts: 1},
		{Pod: "unknown", Ran: 15 * time.Second},
		{Pod: "young", Canary: true, Young: true, Ran: 15 * time.Second},
	}
	if diff := cmp.Diff(want, b.window("c", "b").Lives); diff != "" {
		t.Error(diff)
	}
}

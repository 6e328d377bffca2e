// SPDX-License-Identifier: Apache-2.0

package servicestate

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/pods"
)

var cartKey = types.NamespacedName{Namespace: "shop", Name: "cart"}

// fakePods are pods of the Service cart, except for the strangers.
type fakePods struct {
	pods      []*pods.Pod
	strangers map[types.UID]bool
	down      bool
	asked     int
}

func (*fakePods) Synced() bool { return true }

func (f *fakePods) Of(types.NamespacedName) []*pods.Pod { return f.pods }

func (f *fakePods) Dying(types.NamespacedName) []*pods.Pod {
	return slices.DeleteFunc(slices.Clone(f.pods), func(p *pods.Pod) bool { return p.Deleting.IsZero() })
}

func (f *fakePods) Owned(_ context.Context, p *pods.Pod) error {
	f.asked++
	switch {
	case f.down:
		return errors.New("the API server does not answer")
	case f.strangers[p.UID]:
		return &pods.RefusedError{Why: "has no owner"}
	}
	return nil
}

// fakeServices has one Service, or none.
type fakeServices struct {
	snapshot lifecycle.Snapshot
	none     bool
}

func (fakeServices) Active() bool                  { return false }
func (fakeServices) Keys() []types.NamespacedName  { return []types.NamespacedName{cartKey} }
func (fakeServices) Has(types.NamespacedName) bool { return true }
func (s fakeServices) Snapshot(types.NamespacedName) (types.UID, lifecycle.Snapshot, bool) {
	return "", s.snapshot, !s.none
}

// fakePlans has the plan of the Service with the UID u, or none.
type fakePlans struct {
	t    *testing.T
	plan *v1alpha1.ShardPlacement
}

func (f *fakePlans) Get(service types.UID) *v1alpha1.ShardPlacement {
	if f.t != nil && service != "u" {
		f.t.Errorf("asked for %s", service)
	}
	return f.plan
}

// warnings counts what is logged.
type warnings int

func (w *warnings) Warnw(string, ...any) { *w++ }

func viewOf(pods *fakePods, snapshot lifecycle.Snapshot) (v *View, warned *warnings) {
	warned = new(warnings)
	return New(pods, fakeServices{snapshot: snapshot}, &fakePlans{}, warned), warned
}

func running(uid types.UID, ip string, annotations map[string]string) *pods.Pod {
	return &pods.Pod{
		Namespace: "shop", Name: string(uid), UID: uid, Revision: "cart-1", RevisionUID: "r1", IP: ip, Phase: corev1.PodRunning, Ready: true,
		Annotations: annotations, Grace: time.Minute,
		Containers: []pods.Container{{Name: "user-container", ID: "a", Restarts: 2, Last: "OOMKilled"}, {Name: queueProxy, ID: "b", Restarts: 9}},
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	declares := map[string]string{"stateful.knative-cdevents.dev/runtime": "pekko"}
	wrong := map[string]string{"stateful.knative-cdevents.dev/runtime": "pekka"}
	pods := &fakePods{strangers: map[types.UID]bool{"stranger": true}, pods: []*pods.Pod{
		running("plain", "10.0.0.1", nil), running("sharded", "10.0.0.2", declares), running("wrong", "10.0.0.3", wrong),
		running("stranger", "10.0.0.4", declares), running("young", "", declares), running("guest", "10.0.0.6", declares), running("over", "10.0.0.7", nil),
	}}
	pods.pods[1].Deleting = time.Now()
	pods.pods[5].HostNetwork = true
	pods.pods[6].Phase = corev1.PodSucceeded
	v, warned := viewOf(pods, lifecycle.Snapshot{})
	at := netip.MustParseAddrPort
	want := []scrape.Target{
		{Pod: "plain", Container: "b", Entry: true, Address: at("10.0.0.1:9091"), Path: "/metrics"},
		{Pod: "sharded", Container: "b", Entry: true, Address: at("10.0.0.2:9091"), Path: "/metrics", Dying: true},
		{Pod: "sharded", Container: "a", Address: at("10.0.0.2:9095"), Path: "/metrics", Runtime: "pekko", Dying: true},
		{Pod: "wrong", Container: "b", Entry: true, Address: at("10.0.0.3:9091"), Path: "/metrics"},
	}
	for range 3 {
		got := v.Targets(t.Context(), cartKey)
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
			t.Error(diff)
		}
	}
	if diff := cmp.Diff(want[1:3], v.Dying(t.Context(), cartKey), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if *warned != 1 {
		t.Errorf("warned %d times about one stranger, want once", *warned)
	}
	// Verified pods stay verified while the API server does not answer.
	pods.down, pods.asked = true, 0
	if got := v.Targets(t.Context(), cartKey); len(got) != len(want) || pods.asked != 1 {
		t.Errorf("%d targets, asked %d times", len(got), pods.asked)
	}
	pods.pods = nil
	v.Forget()
	if len(v.owned) != 0 {
		t.Errorf("deleted pods are still stored: %v", v.owned)
	}
}

func TestFacts(t *testing.T) {
	t.Parallel()
	v, _ := viewOf(&fakePods{pods: []*pods.Pod{running("p1", "10.0.0.1", nil)}}, lifecycle.Snapshot{
		Route: &lifecycle.Route{Effective: true, Traffic: lifecycle.Split{{Revision: "cart-1", Percent: 95}, {Revision: "cart-2", Percent: 5}}},
		Revisions: map[string]*lifecycle.Revision{
			"cart-1": {Name: "cart-1", UID: "r1", Stateful: "pekko"}, "cart-2": {Name: "cart-2", UID: "r2", Misdeclared: "pekka"}, "cart-0": {Name: "cart-0", UID: "r0"},
		},
	})
	shards := 34
	view := &lifecycle.Cluster{ClusterStatus: lifecycle.ClusterStatus{
		State: lifecycle.ClusterReady, Parts: []lifecycle.ClusterPart{{Revision: "cart-1", Pods: 2, Members: 1, Shards: &shards}},
	}}
	v.UpdateCluster(cartKey, observer.Part{Value: view})
	if f := v.Facts(cartKey); len(f.Pods) > 0 || f.OneCall {
		t.Errorf("the facts include pods that are not verified: %+v", f)
	}
	v.Targets(t.Context(), cartKey)
	f := v.Facts(cartKey)
	wantPods := []attribution.Pod{{UID: "p1", Revision: "r1", Restarts: 2, OOMKilled: true, Ready: true, Running: true}}
	if diff := cmp.Diff(wantPods, f.Pods); diff != "" {
		t.Error(diff)
	}
	got := map[string]attribution.Revision{}
	for _, r := range f.Revisions {
		got[r.Name] = r
	}
	share := func(f float64) *float64 { return &f }
	want := map[string]attribution.Revision{
		"cart-0": {Revision: &lifecycle.Revision{UID: "r0", Name: "cart-0"}, Configuration: "cart", Required: share(0)},
		"cart-1": {Revision: &lifecycle.Revision{UID: "r1", Name: "cart-1", Stateful: "pekko"}, Configuration: "cart", Required: share(.95), Timeout: time.Minute, ClusterMembers: share(1), ClusterShards: share(34)},
		"cart-2": {Revision: &lifecycle.Revision{UID: "r2", Name: "cart-2", Misdeclared: "pekka"}, Configuration: "cart", Required: share(.05)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// Facts about an unknown cluster are missing.
	for _, part := range []observer.Part{{Value: &lifecycle.Cluster{ClusterStatus: lifecycle.ClusterStatus{State: lifecycle.ClusterUnknown, Parts: view.Parts}}}, {}} {
		v.UpdateCluster(cartKey, part)
		for _, r := range v.Facts(cartKey).Revisions {
			if r.ClusterMembers != nil || r.ClusterShards != nil {
				t.Errorf("%+v", r)
			}
		}
	}
	// A split that is not effective yet does not count.
	v, _ = viewOf(&fakePods{}, lifecycle.Snapshot{Route: &lifecycle.Route{}, Revisions: map[string]*lifecycle.Revision{"cart-1": {UID: "r1"}}})
	if f := v.Facts(cartKey); f.Revisions[0].Required != nil {
		t.Errorf("%+v", f)
	}
}

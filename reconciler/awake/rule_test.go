// SPDX-License-Identifier: Apache-2.0

package awake

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/customrun"
)

// TestRealAPIServer has one API server, because starting it takes longest.
func TestRealAPIServer(t *testing.T) {
	w := newWorld(t)
	for _, part := range []struct {
		name string
		test func(*testing.T, *world)
	}{{"reasons", reasons}, {"wake", wake}, {"sleep", sleep}, {"race", race}} {
		t.Run(part.name, func(t *testing.T) {
			w.t = t
			part.test(t, w)
		})
	}
}

// reasons begins with an empty cluster.
func reasons(t *testing.T, w *world) {
	ctx := t.Context()
	core, controller := w.rule("core"), w.rule("controller")
	// all checks the reasons of everything, which core and controller agree about.
	all := func(when string, want ...string) {
		t.Helper()
		for name, r := range map[string]*Rule{"core": core, "controller": controller} {
			if got := must[[]string](t)(r.Everything(ctx)); !slices.Equal(got, want) {
				t.Errorf("%s, the %s: %q, want %q", when, name, got, want)
			}
		}
	}
	// object checks the reasons of an object, as a ring names it.
	object := func(kind schema.GroupKind, key string, want ...string) {
		t.Helper()
		namespace, name, _ := strings.Cut(key, "/")
		got, is, err := core.Object(ctx, kind, types.NamespacedName{Namespace: namespace, Name: name})
		if err != nil || !is || !slices.Equal(got, want) {
			t.Errorf("%s %s: %q, %v, %v, want %q", kind.Kind, key, got, is, err, want)
		}
	}
	service := func(when string, want ...string) {
		t.Helper()
		if got := must[[]string](t)(core.Service(ctx, cart)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	gates, runs := v1alpha1.GateKind.GroupKind(), v1alpha1.GateRunKind.GroupKind()
	placements := v1alpha1.PlacementKind.GroupKind()
	all("nothing")
	if _, is, err := core.Object(ctx, schema.GroupKind{Kind: "Secret"}, cart); is || err != nil {
		t.Errorf("a Secret is measured: %v, %v", is, err)
	}
	for _, kind := range []schema.GroupKind{gates, runs, placements, customRun} {
		object(kind, "shop/none")
	}

	w.revision("cart-00001")
	w.revision("cart-00002")
	w.route(true, map[string]int64{"cart-00001": 50, "cart-00002": 50})
	service("a split that no gate names")
	gate := w.gate("cart", "cart")
	w.gate("early", "none")
	const named = "CanaryGate shop/cart names Service shop/cart, whose "
	service("a split", named+"traffic is split")
	all("a split", named+"traffic is split")
	object(gates, "shop/cart", named+"traffic is split")
	object(gates, "shop/early")
	w.route(false, map[string]int64{"cart-00001": 50, "cart-00002": 50})
	service("a split that is not in effect yet", named+"Revision cart-00002 is new")
	w.route(true, map[string]int64{"cart-00001": 100})
	service("a Revision without traffic", named+"Revision cart-00002 is new")
	latest := func(canary string, verdict verdict.Verdict, at time.Time) {
		t.Helper()
		gate.Status.Latest = &v1alpha1.GateLatest{GateRunSummary: v1alpha1.GateRunSummary{ID: "0", Canary: canary, Verdict: verdict, StartTime: metav1.NewTime(at)}}
		gate = must[*v1alpha1.CanaryGate](t)(w.ours.CanaryGates("shop").UpdateStatus(ctx, gate, metav1.UpdateOptions{}))
	}
	soon := time.Now().Add(time.Second)
	latest("cart-00002", verdict.Fail, soon)
	service("it was judged")
	all("it was judged")
	object(gates, "shop/cart")
	for when, set := range map[string]func(){
		"the verdict does not stand":          func() { latest("cart-00002", verdict.Inconclusive, soon) },
		"it is of another Revision":           func() { latest("cart-00001", verdict.Fail, soon) },
		"it is of one that had the same name": func() { latest("cart-00002", verdict.Fail, soon.Add(-newFor)) },
	} {
		set()
		service(when, named+"Revision cart-00002 is new")
	}
	core.now = func() time.Time { return time.Now().Add(newFor + time.Minute) }
	service("it never gets any")
	core.now = time.Now
	w.route(true, map[string]int64{"cart-00002": 100})
	service("it has all of the traffic")

	gate.Spec.Service = "till"
	gate = must[*v1alpha1.CanaryGate](t)(w.ours.CanaryGates("shop").Update(ctx, gate, metav1.UpdateOptions{}))
	at := metav1.Now()
	gate.Status.Run = &v1alpha1.GateRun{
		ID: "1", Service: v1alpha1.GateObject{Name: "cart"}, StartTime: at, Deadline: at, Verdict: verdict.Running,
	}
	gate = must[*v1alpha1.CanaryGate](t)(w.ours.CanaryGates("shop").UpdateStatus(ctx, gate, metav1.UpdateOptions{}))
	const running = "CanaryGate shop/cart has a run in progress"
	service("the gate now names another Service, and still judges this one", running)
	object(gates, "shop/cart", running)
	other := w.gate("another", "cart")
	service("another gate, without a run, names it", running)
	ok(t, w.ours.CanaryGates("shop").Delete(ctx, other.Name, metav1.DeleteOptions{}))
	w.run("cart")
	all("a run, and its evidence", running)
	gate.Spec.Service, gate.Status.Run.CompletionTime = "cart", &at
	must[*v1alpha1.CanaryGate](t)(w.ours.CanaryGates("shop").UpdateStatus(ctx, gate, metav1.UpdateOptions{}))
	gate = must[*v1alpha1.CanaryGate](t)(w.ours.CanaryGates("shop").Get(ctx, "cart", metav1.GetOptions{}))
	gate.Spec.Service = "cart"
	must[*v1alpha1.CanaryGate](t)(w.ours.CanaryGates("shop").Update(ctx, gate, metav1.UpdateOptions{}))
	object(gates, "shop/cart")
	w.place("carts")
	const recorded, placed = running + ", or one that has just ended", "the shards of Service shop/carts are placed"
	all("a run and a placement", recorded, placed)
	object(runs, system+"/canarygate-cart", recorded)
	object(placements, system+"/service-carts", placed)
	object(runs, "shop/canarygate-cart") // of which nothing is believed
	ended := must[*v1alpha1.CanaryGateRun](t)(w.ours.CanaryGateRuns(system).Get(ctx, "canarygate-cart", metav1.GetOptions{}))
	ended.Labels = map[string]string{v1alpha1.FinishedRunLabel: "true"}
	must[*v1alpha1.CanaryGateRun](t)(w.ours.CanaryGateRuns(system).Update(ctx, ended, metav1.UpdateOptions{}))
	all("a run that has ended, and a placement", placed)
	object(runs, system+"/canarygate-cart")
	ok(t, w.ours.CanaryGateRuns(system).Delete(ctx, "canarygate-cart", metav1.DeleteOptions{}))
	ok(t, w.ours.ShardPlacements(system).Delete(ctx, "service-carts", metav1.DeleteOptions{}))

	ok(t, w.InstallCustomRuns(ctx))
	w.customRun("gate-1", "knative-cdevents.dev/v1alpha1")
	w.customRun("other", "example.com/v1")
	all("Tekton, and no right to read its CustomRuns")
	object(customRun, "shop/gate-1")
	w.allowTekton()
	const unfinished = "CustomRun shop/gate-1 is not finished"
	eventually(t, "the right applies", func() bool { return len(must[[]string](t)(core.Everything(ctx))) > 0 })
	all("a CustomRun", unfinished)
	object(customRun, "shop/gate-1", unfinished)
	object(customRun, "shop/other")
	w.finish("gate-1")
	all("it is finished")
	object(customRun, "shop/gate-1")

	w.define("Tenant", "tenants", "example.com", false)
	clusters, fleets := w.define("Cluster", "clusters", "cluster.x-k8s.io", false), w.define("Fleet", "fleets", "example.com", true)
	want := []string{"there may be environments of kind Cluster.cluster.x-k8s.io", "there may be environments of kind fleets.example.com"}
	eventually(t, "the kinds are served", func() bool { return len(must[[]string](t)(core.Everything(ctx))) == 2 })
	all("environments", want...)
	clusters()
	fleets()
	eventually(t, "the kinds are gone", func() bool { return len(must[[]string](t)(core.Everything(ctx))) == 0 })
	if customrun.Definition != "customruns.tekton.dev" {
		t.Error("another right is needed")
	}
	away, err := NewRule(w.As("system:serviceaccount:"+system+":stranger"), system, func() []schema.GroupKind { return nil })
	ok(t, err)
	if why, err := away.Everything(ctx); err == nil || len(why) > 0 {
		t.Errorf("who may read nothing finds %q, %v", why, err)
	}
	if _, err := away.Service(ctx, cart); err == nil || errors.Unwrap(err) == nil {
		t.Errorf("who may read nothing gets %v", err)
	}
}

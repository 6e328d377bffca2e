// SPDX-License-Identifier: Apache-2.0

package awake

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// wake begins without a Deployment, and leaves the traffic of the cart split.
func wake(t *testing.T, w *world) {
	ctx := t.Context()
	core := &Waker{Rule: w.rule("core"), Deployment: w.deployment("core")}
	now := time.Now().Truncate(time.Second)
	core.Deployment.Now = func() time.Time { return now }
	ok(t, core.Deployment.Wake(ctx, []string{"there is no controller"}))
	w.install(0)
	ok(t, core.Everything(ctx))
	ok(t, core.Service(ctx, cart))
	if n, a := w.state(); n != 0 || len(a) > 0 {
		t.Errorf("with nothing to measure, there are %d replicas, %q", n, a)
	}

	is := func(when string, replicas int32, at time.Time, text string) {
		t.Helper()
		if n, a := w.state(); n != replicas || a[v1alpha1.AwakeAtAnnotation] != at.UTC().Format(millis) || a[v1alpha1.AwakeAnnotation] != text {
			t.Errorf("%s: %d replicas, %q, want %d, %q at %s", when, n, a, replicas, text, at)
		}
	}
	w.route(true, map[string]int64{"cart-00001": 50, "cart-00002": 50})
	const split = "CanaryGate shop/cart names Service shop/cart, whose traffic is split"
	ok(t, core.Service(ctx, cart))
	first := now
	is("a split", 1, first, "awake: "+split)
	now = now.Add(defaultRefresh / 2)
	ok(t, core.Everything(ctx))
	is("soon after", 1, first, "awake: "+split)
	now = now.Add(defaultRefresh / 2)
	ok(t, core.Stateful(ctx, types.NamespacedName{Namespace: "shop", Name: "carts"}))
	is("later", 1, now, "awake: Service shop/carts declares a stateful cluster")

	w.scale(0, map[string]string{v1alpha1.AwakeReplicasAnnotation: "3", v1alpha1.AwakeAtAnnotation: now.UTC().Format(millis)})
	is2, err := core.Object(ctx, v1alpha1.GateKind.GroupKind(), cart)
	if ok(t, err); !is2 {
		t.Error("a gate is not measured")
	}
	is("asleep since just now", 3, now, "awake: "+split)
	w.place("carts")
	now = now.Add(defaultRefresh)
	ok(t, core.Everything(ctx))
	is("two reasons", 3, now, "awake: "+split+", and 1 more")
	ok(t, w.ours.ShardPlacements(system).Delete(ctx, "service-carts", metav1.DeleteOptions{}))
	w.scale(0, map[string]string{v1alpha1.AwakeReplicasAnnotation: "-7"})
	ok(t, core.Everything(ctx))
	is("a wrong number", 1, now, "awake: "+split)
}

// sleeper returns one that looks when the test says.
func (w *world) sleeper(quiet time.Duration) *Sleeper {
	w.t.Helper()
	kube := must[*kubernetes.Clientset](w.t)(kubernetes.NewForConfig(w.as("controller")))
	return &Sleeper{
		Rule: w.rule("controller"), Deployment: w.deployment("controller"), Leads: func() bool { return true },
		Stateful: func() ([]types.NamespacedName, bool) { return nil, true },
		Leases:   kube.CoordinationV1().Leases(system), Quiet: func() time.Duration { return quiet },
	}
}

// sleep begins with a split.
func sleep(t *testing.T, w *world) {
	var now time.Time
	const quiet = 10 * time.Minute
	s := w.sleeper(quiet)
	s.Deployment.Now = func() time.Time { return now }
	// stays looks for long, and long after each, with a doorbell that holds its Lease, or not.
	looks := func(rung bool) {
		t.Helper()
		now = time.Now()
		w.scale(2, map[string]string{"theirs": "kept", v1alpha1.AwakeAtAnnotation: now.UTC().Format(millis)})
		s.last = now
		for range 4 {
			if rung {
				w.hold(now.Add(time.Second))
			}
			ok(t, s.look(t.Context()))
			now = now.Add(quiet / 2)
		}
	}
	awake := func(when string) {
		t.Helper()
		if n, a := w.state(); n != 2 {
			t.Errorf("%s, it sleeps: %q", when, a)
		}
	}
	looks(true)
	awake("during a split")
	w.route(true, map[string]int64{"cart-00002": 100})
	w.hold(time.Now().Add(-time.Second))
	looks(false)
	awake("after the Lease of the doorbell has ended")
	w.hold(time.Time{})
	looks(false)
	awake("while nobody holds the Lease")
	ok(t, w.kube.CoordinationV1().Leases(system).Delete(t.Context(), "doorbell", metav1.DeleteOptions{}))
	looks(false)
	awake("without a Lease")
	s.Leads = func() bool { return false }
	looks(true)
	awake("while another replica leads")
	s.Leads = func() bool { return true }
	s.Stateful = func() ([]types.NamespacedName, bool) { return []types.NamespacedName{cart}, true }
	looks(true)
	awake("with a stateful cluster")
	s.Stateful = func() ([]types.NamespacedName, bool) { return nil, false }
	looks(true)
	awake("while it is not known which there are")
	s.Stateful = func() ([]types.NamespacedName, bool) { return nil, true }

	began := now
	now = time.Now()
	w.scale(2, map[string]string{"theirs": "kept", v1alpha1.AwakeAtAnnotation: now.UTC().Format(millis)})
	w.hold(now.Add(time.Hour))
	s.last = now.Add(-quiet)
	ok(t, s.look(t.Context()))
	awake("just after it was woken")
	looks(true)
	n, a := w.state()
	if n != 0 || a[v1alpha1.AwakeAnnotation] != "asleep: there has been nothing to measure for 10m0s" || a["theirs"] != "kept" ||
		a[v1alpha1.AwakeReplicasAnnotation] != "2" || a[v1alpha1.AwakeAtAnnotation] == began.UTC().Format(millis) {
		t.Errorf("at last, there are %d replicas, %q", n, a)
	}
	before := maps.Clone(a)
	ok(t, s.look(t.Context()))
	if _, a := w.state(); !maps.Equal(a, before) {
		t.Errorf("asleep, it writes %q", a)
	}

	away := errors.New("the API server is away")
	s.Rule = asked(func(context.Context) ([]string, error) { return nil, away })
	w.scale(2, nil)
	s.last, now = time.Time{}, time.Now()
	if err := s.look(t.Context()); !errors.Is(err, away) || s.last != now {
		t.Errorf("when it is not known what there is to measure: %v", err)
	}
	awake("when it is not known what there is to measure")
	// Somebody has written the Deployment while the controller looked.
	s.last, now = time.Time{}, time.Now()
	w.hold(now.Add(time.Hour))
	s.Rule = asked(func(ctx context.Context) ([]string, error) {
		return nil, w.deployment("core").Wake(ctx, []string{"a later reason"})
	})
	ok(t, s.look(t.Context()))
	awake("when it was woken while it looked")
}

type asked func(context.Context) ([]string, error)

func (a asked) Everything(ctx context.Context) ([]string, error) { return a(ctx) }

// race has controllers fall asleep at random while cores wake them for something new. After each core has answered, and
// as long as there is something to measure, the controller is awake.
func race(t *testing.T, w *world) {
	const quiet, rounds = 100 * time.Millisecond, 100
	w.scale(3, nil)
	var exists atomic.Bool // whether there is something to measure
	rule := asked(func(context.Context) ([]string, error) {
		if exists.Load() {
			return []string{"something new"}, nil
		}
		time.Sleep(rand.N(quiet / 2))
		return nil, nil
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	w.hold(time.Now().Add(time.Hour))
	for range 2 { // of which both think that they lead
		s := w.sleeper(quiet)
		s.Rule, s.Every = rule, time.Millisecond
		all.Go(func() { s.Run(ctx) })
	}
	cores := []*Deployment{w.deployment("core"), w.deployment("core")}
	slept := 0
	for range rounds {
		// Most rounds begin when it falls asleep, and some when it is awake, or sleeps.
		wait := quiet + rand.N(quiet)
		if rand.N(4) == 0 {
			wait = rand.N(3 * quiet)
		}
		time.Sleep(wait)
		if n, _ := w.state(); n == 0 {
			slept++
		}
		exists.Store(true)
		var rings sync.WaitGroup
		for _, d := range cores {
			d.Refresh = quiet / 2
			rings.Go(func() { ok(t, d.Wake(ctx, []string{"something new"})) })
		}
		rings.Wait()
		for range 10 {
			if n, a := w.state(); n == 0 {
				t.Fatalf("it sleeps although there is something to measure: %q", a)
			}
			time.Sleep(rand.N(10 * time.Millisecond))
		}
		exists.Store(false)
	}
	eventually(t, "it sleeps in the end", func() bool { n, _ := w.state(); return n == 0 })
	d := must[*appsv1.Deployment](t)(w.kube.AppsV1().Deployments(system).Get(t.Context(), controller, metav1.GetOptions{}))
	if d.Annotations[v1alpha1.AwakeReplicasAnnotation] != "3" || !strings.HasPrefix(d.Annotations[v1alpha1.AwakeAnnotation], "asleep") {
		t.Errorf("in the end, the annotations are %q", d.Annotations)
	}
	t.Logf("%d times of %d, it slept when it was woken; in the others, it was falling asleep, or awake", slept, rounds)
}

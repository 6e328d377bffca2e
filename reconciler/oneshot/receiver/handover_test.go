// SPDX-License-Identifier: Apache-2.0

package receiver_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/reconciler"
	"knative.dev/pkg/system"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery"
	"github.com/knative-cdevents/knative-cdevents/emitter/follow"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
	"github.com/knative-cdevents/knative-cdevents/reconciler/awake"
	"github.com/knative-cdevents/knative-cdevents/reconciler/namespaces"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
	"github.com/knative-cdevents/knative-cdevents/reconciler/settings/store"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source"
	"github.com/knative-cdevents/knative-cdevents/test/sink"
)

// The times of a day, in a test.
const (
	quiet   = time.Second
	refresh = 200 * time.Millisecond
	looks   = 50 * time.Millisecond
)

// resident is the part of the controller that sends events, and that puts it to sleep, wired as cmd/controller does.
type resident struct {
	*delivery.Delivery
	t        *testing.T
	known    atomic.Bool
	registry *observer.Registry
	ledger   *ledger.Ledger
}

func (r *resident) IsLeaderFor(key types.NamespacedName) bool {
	return r.known.Load() && r.registry.IsLeaderFor(key)
}
func (*resident) LeftOut(ledger.Key, []types.UID)               {}
func (*resident) Refused(ledger.Key, types.UID, ledger.Refusal) {}
func (r *resident) Reverted()                                   { r.t.Error("the API server went back in time") }
func (r *resident) Demoted(b reconciler.Bucket)                 { r.ledger.HandOver(b.Has) }

// resident starts a controller.
func (w *world) resident() (stop func()) {
	t := w.t
	ctx, cancel := context.WithCancel(t.Context())
	theirs, err := client.New(w.Config())
	must(t, err)
	names, err := metadata.NewForConfig(w.Config())
	must(t, err)
	set, err := store.Load(ctx, w.kube)
	must(t, err)
	presence, err := observer.NewPresence(names, "")
	must(t, err)
	r := &resident{t: t, registry: observer.NewRegistry()}
	sources := client.NewSourceInformer(theirs, metav1.NamespaceAll, 0, client.SourceIndexers())
	subjects := client.NewSubjectInformer(theirs, ours, 0, nil)
	must(t, subjects.SetTransform(follow.Lean))
	lister, filters := source.Lister{Indexer: sources.GetIndexer()}, route.NewFilters()
	router := &route.Router{
		Sources: lister, SystemNamespace: ours, Settings: set, Render: cdevents.Render, Rendering: cdevents.Rendering, Filters: filters,
		Namespace: func(name string) (map[string]string, bool, error) { return namespaces.Read(ctx, names, name) },
	}
	r.ledger = ledger.New(theirs.CDEventSubjects(ours), router, sink.Uncounted{}, ledger.WithLeader(r), ledger.WithInformer(subjects))
	r.Delivery = delivery.New(ctx, delivery.Options{
		Ledger: r.ledger, Transport: w.sink, Render: cdevents.Render, Filters: filters, Metrics: sink.Uncounted{}, Leader: r,
	})
	r.ledger.UseDelivery(r)
	followed, err := subjects.AddEventHandler(follow.Subjects{Ledger: r.ledger, Observers: r.registry, Restarter: r})
	must(t, err)
	_, err = sources.AddEventHandler(source.NewChanges(r, filters, router, r.registry, lister, ours))
	must(t, err)
	baselines := ledger.Baselines{Client: theirs.CDEventBaselines(ours)}
	impl, services := service.New(ctx, observer.Shared{
		Options:  observer.Options{Ledger: r.ledger, Now: time.Now, Stopping: ctx.Done(), Restarter: r},
		Registry: r.registry, Presence: presence, Settings: set, Carried: cdevents.CarriedAnnotations(),
		Baselines: observer.NewBaselines(baselines, sources.HasSynced, r.known.Load),
	}, w.serving)

	var all sync.WaitGroup
	all.Go(func() { sources.RunWithContext(ctx) })
	all.Go(func() { subjects.RunWithContext(ctx) })
	all.Go(func() { presence.Run(ctx) })
	acknowledging, enough := context.WithCancel(context.WithoutCancel(ctx))
	all.Go(func() { r.ledger.Run(acknowledging, 4) })
	all.Go(func() {
		defer enough()
		if cache.WaitForCacheSync(ctx.Done(), followed.HasSynced, sources.HasSynced) {
			r.known.Store(true)
			r.Resume()
			r.Sweep(ctx, time.Minute)
		}
		<-ctx.Done()
		r.Wait()
	})
	r.registry.Start(ctx, &all, services)
	must(t, r.registry.LeadAll())
	all.Go(func() {
		if err := controller.StartAll(ctx, impl); err != nil {
			t.Errorf("running the controller: %v", err)
		}
	})
	sleeper := w.sleeper(services)
	all.Go(func() { sleeper.Run(ctx) })
	return func() { cancel(); all.Wait() }
}

// sleeper has no rights but those of the controller for it.
func (w *world) sleeper(services *service.Watch) *awake.Sleeper {
	config := w.As("system:serviceaccount:"+ours+":controller", "system:serviceaccounts")
	rule, err := awake.NewRule(config, ours, func() []schema.GroupKind { return nil })
	must(w.t, err)
	kube, err := kubernetes.NewForConfig(config)
	must(w.t, err)
	return &awake.Sleeper{
		Rule: rule, Deployment: &awake.Deployment{Client: kube.AppsV1().Deployments(ours), Now: time.Now, Refresh: refresh},
		Stateful: func() ([]types.NamespacedName, bool) { return nil, services.Active() },
		Leads:    func() bool { return true },
		Leases:   kube.CoordinationV1().Leases(ours), Every: looks, Quiet: func() time.Duration { return quiet },
	}
}

// replicas returns how many the Deployment of the controller is to have.
func (w *world) replicas() int32 {
	d, err := w.kube.AppsV1().Deployments(ours).Get(w.t.Context(), "controller", metav1.GetOptions{})
	must(w.t, err)
	return *d.Spec.Replicas
}

// deploy has a controller run while its Deployment has replicas, as Kubernetes does. It begins asleep.
func (w *world) deploy() {
	labels, none := map[string]string{"app": "controller"}, int32(0)
	_, err := w.kube.AppsV1().Deployments(ours).Create(w.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "controller"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &none, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "controller", Image: "controller"}},
			}},
		},
	}, metav1.CreateOptions{})
	must(w.t, err)
	w.run(func(ctx context.Context) {
		var stop func()
		for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			d, err := w.kube.AppsV1().Deployments(ours).Get(ctx, "controller", metav1.GetOptions{})
			switch {
			case err != nil:
			case *d.Spec.Replicas > 0 && stop == nil:
				w.t.Logf("it starts: %q", d.Annotations[v1alpha1.AwakeAnnotation])
				stop = w.resident() //nolint:contextcheck // it ends by stop
			case *d.Spec.Replicas == 0 && stop != nil:
				w.t.Logf("it ends: %q", d.Annotations[v1alpha1.AwakeAnnotation])
				stop()
				stop = nil
			}
		}
		if stop != nil {
			stop()
		}
	})
}

func (w *world) eventually(what string, f func() bool) {
	w.t.Helper()
	for until := time.Now().Add(time.Minute); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			w.t.Fatalf("waited a minute until %s; received %v", what, w.received())
		}
	}
}

// received counts events by type.
func (w *world) received() map[string]int {
	counts := map[string]int{}
	for _, typ := range w.sink.Got() {
		counts[typ]++
	}
	return counts
}

// The controller wakes up and falls asleep again and again, while Services come and are upgraded.
func TestHandOver(t *testing.T) {
	t.Setenv(system.NamespaceEnvKey, ours)
	const cycles = 6
	w, ctx := newWorld(t), t.Context()
	w.deploy()
	w.core()
	w.doorbell()
	c := w.source()
	gate := &v1alpha1.CanaryGate{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "cart"}, Spec: v1alpha1.CanaryGateSpec{Service: "cart"}}
	_, err := c.CanaryGates(shop).Create(ctx, gate, metav1.CreateOptions{})
	must(t, err)
	w.sourceReady(c)

	cart := w.create("cart")
	last := w.revision(cart, 1)
	w.route(cart, map[string]int64{last: 100})
	w.eventually("the first Revision is deployed", func() bool { return w.received()["published"] == 1 })
	if n := w.replicas(); n != 0 {
		t.Errorf("it has %d replicas with nothing to compare", n)
	}

	others := 0
	stop := w.run(func(ctx context.Context) {
		for ; ctx.Err() == nil; time.Sleep(150 * time.Millisecond) {
			others++
			svc := w.create(fmt.Sprintf("s-%d", others))            //nolint:contextcheck // what has begun is completed
			w.route(svc, map[string]int64{w.revision(svc, 1): 100}) //nolint:contextcheck // what has begun is completed
		}
	})
	for n := range cycles {
		next := w.revision(cart, n+2)
		w.eventually("a new Revision wakes it", func() bool { return w.replicas() > 0 })
		w.eventually("it is ready", func() bool { return w.received()["ready"] > n })
		w.route(cart, map[string]int64{last: 80, next: 20})
		w.eventually("the canary is announced", func() bool { return w.received()["shifted"] == n+1 })
		time.Sleep(2 * quiet)
		if w.replicas() == 0 {
			t.Error("it sleeps during a split")
		}
		w.route(cart, map[string]int64{next: 100})
		w.eventually("nothing keeps it awake", func() bool { return w.replicas() == 0 })
		last = next
	}
	stop()
	want := map[string]int{
		"created": others + 1, "ready": others + 1 + cycles, "deployed": others + 1, "published": others + 1,
		"shifted": cycles, "upgraded": cycles,
	}
	w.eventually(fmt.Sprintf("everything is received: %v", want), func() bool { return maps.Equal(w.received(), want) })
	time.Sleep(2 * time.Second)
	if got := w.received(); !maps.Equal(got, want) {
		t.Errorf("later, it received %v, want %v", got, want)
	}
	t.Logf("received once, or the same bytes again: %v", want)
	w.eventually("nothing is pending", func() bool {
		entries, err := c.CDEventSubjects(ours).List(ctx, metav1.ListOptions{})
		must(t, err)
		return !slices.ContainsFunc(entries.Items, func(e v1alpha1.CDEventSubject) bool { return e.Status.Pending > 0 })
	})
}

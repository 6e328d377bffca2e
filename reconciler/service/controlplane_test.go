// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	"knative.dev/pkg/controller"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	servingv1beta1 "knative.dev/serving/pkg/apis/serving/v1beta1"
	"knative.dev/serving/pkg/client/clientset/versioned"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
	"github.com/knative-cdevents/knative-cdevents/test/journal"
)

const namespace = "default"

// running is a controller in one process, without leader election.
type running struct {
	*journal.Record
	stop func()
}

func run(t *testing.T, config *rest.Config) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ours, err := client.New(config)
	must(t, err)
	meta, err := metadata.NewForConfig(config)
	must(t, err)
	knative, err := versioned.NewForConfig(config)
	must(t, err)
	presence, err := observer.NewPresence(meta, "")
	must(t, err)
	j := &journal.Record{}
	l := ledger.New(ours.CDEventSubjects(namespace), j, j)
	baselines := ledger.Baselines{Client: ours.CDEventBaselines(namespace)}
	subjects := client.NewSubjectInformer(ours, namespace, 0, nil)
	_, err = subjects.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { observe(l, obj) },
		UpdateFunc: func(_, obj any) { observe(l, obj) },
		DeleteFunc: func(obj any) {
			if s, ok := obj.(*v1alpha1.CDEventSubject); ok {
				l.Forget(s, true)
			}
		},
	})
	must(t, err)
	var wg sync.WaitGroup
	wg.Go(func() { subjects.RunWithContext(ctx) })
	wg.Go(func() { presence.Run(ctx) })
	registry := observer.NewRegistry()
	impl, services := service.New(ctx, observer.Shared{
		Options:  observer.Options{Ledger: l, Now: time.Now, Stopping: ctx.Done()},
		Registry: registry, Presence: presence, Settings: defaults{},
		Baselines: observer.NewBaselines(baselines, subjects.HasSynced),
	}, knative)
	must(t, registry.LeadAll())
	registry.Start(ctx, &wg, services)
	wg.Go(func() {
		if err := controller.StartAll(ctx, impl); err != nil {
			t.Errorf("running the controller: %v", err)
		}
	})
	// Take the baseline now, as a controller does when it starts.
	_, err = baselines.Since(ctx, service.Resource)
	must(t, err)
	r := &running{Record: j, stop: func() { cancel(); wg.Wait() }}
	t.Cleanup(r.stop)
	return r
}

// defaults are the settings without a ConfigMap.
type defaults struct{}

func (defaults) Rules() lifecycle.Rules { return lifecycle.DefaultRules }

func observe(l *ledger.Ledger, obj any) {
	if s, ok := obj.(*v1alpha1.CDEventSubject); ok {
		l.Observe(s)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// of returns the types of the transitions of a Service.
func (r *running) of(name string) []string {
	var out []string
	for _, typ := range r.Of("Service/" + name) {
		out = append(out, strings.TrimPrefix(string(typ), "Service"))
	}
	return out
}

func (r *running) want(t *testing.T, name string, want ...string) {
	t.Helper()
	for range 300 {
		if len(r.of(name)) >= len(want) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if got := r.of(name); !slices.Equal(got, want) {
		t.Fatalf("%s: got %q, want %q", name, got, want)
	}
}

// quiet waits for a while and fails if further transitions arrive.
func (r *running) quiet(t *testing.T, name string, want ...string) {
	t.Helper()
	time.Sleep(2 * time.Second)
	r.want(t, name, want...)
}

// servingController writes what Serving's controllers would write. They do not run here.
type servingController struct {
	versioned.Interface
	t *testing.T
}

func (s servingController) create(name string) *servingv1.Service {
	s.t.Helper()
	svc := &servingv1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	svc.Spec.Template.Spec.Containers = []corev1.Container{{Image: "registry/app"}}
	svc, err := s.ServingV1().Services(namespace).Create(s.t.Context(), svc, metav1.CreateOptions{})
	must(s.t, err)
	yes := true
	route := &servingv1.Route{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "serving.knative.dev/v1", Kind: "Service", Name: name, UID: svc.UID, Controller: &yes,
		}},
	}}
	_, err = s.ServingV1().Routes(namespace).Create(s.t.Context(), route, metav1.CreateOptions{})
	must(s.t, err)
	return svc
}

func (s servingController) revise(svc *servingv1.Service, generation int) {
	s.t.Helper()
	ctx := s.t.Context()
	rev := &servingv1.Revision{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: fmt.Sprintf("%s-%05d", svc.Name, generation), Labels: map[string]string{
			serving.ServiceLabelKey: svc.Name, serving.ServiceUIDLabelKey: string(svc.UID),
			serving.ConfigurationGenerationLabelKey: fmt.Sprint(generation),
		},
	}}
	rev.Spec.Containers = []corev1.Container{{Name: "app", Image: fmt.Sprintf("registry/app:%d", generation)}}
	rev, err := s.ServingV1().Revisions(namespace).Create(ctx, rev, metav1.CreateOptions{})
	must(s.t, err)
	rev.Status.Conditions = duckv1.Conditions{{
		Type: apis.ConditionReady, Status: corev1.ConditionTrue,
		LastTransitionTime: now(),
	}}
	rev.Status.ContainerStatuses = []servingv1.ContainerStatus{{
		Name:        "app",
		ImageDigest: fmt.Sprintf("registry/app@sha256:%064d", generation),
	}}
	_, err = s.ServingV1().Revisions(namespace).UpdateStatus(ctx, rev, metav1.UpdateOptions{})
	must(s.t, err)
}

func now() apis.VolatileTime { return apis.VolatileTime{Inner: metav1.Now()} }

// route sends all traffic to one Revision and makes the Service Ready.
func (s servingController) route(name string, generation int) {
	s.t.Helper()
	ctx := s.t.Context()
	r, err := s.ServingV1().Routes(namespace).Get(ctx, name, metav1.GetOptions{})
	must(s.t, err)
	r.Status.ObservedGeneration = r.Generation
	r.Status.URL = apis.HTTP(name + ".example.com")
	r.Status.Conditions = duckv1.Conditions{
		{Type: apis.ConditionReady, Status: corev1.ConditionTrue, LastTransitionTime: now()},
		{Type: servingv1.RouteConditionIngressReady, Status: corev1.ConditionTrue, LastTransitionTime: now()},
	}
	all := int64(100)
	r.Status.Traffic = []servingv1.TrafficTarget{{RevisionName: fmt.Sprintf("%s-%05d", name, generation), Percent: &all}}
	_, err = s.ServingV1().Routes(namespace).UpdateStatus(ctx, r, metav1.UpdateOptions{})
	must(s.t, err)
	svc, err := s.ServingV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	must(s.t, err)
	svc.Status.ObservedGeneration = svc.Generation
	svc.Status.Conditions = duckv1.Conditions{{
		Type: apis.ConditionReady, Status: corev1.ConditionTrue,
		LastTransitionTime: now(),
	}}
	_, err = s.ServingV1().Services(namespace).UpdateStatus(ctx, svc, metav1.UpdateOptions{})
	must(s.t, err)
}

// domain creates a Ready DomainMapping, or changes the target of an existing one.
func (s servingController) domain(name, to string) {
	s.t.Helper()
	ctx, api := s.t.Context(), s.ServingV1beta1().DomainMappings(namespace)
	ref := duckv1.KReference{APIVersion: "serving.knative.dev/v1", Kind: "Service", Namespace: namespace, Name: to}
	d, err := api.Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		d.Spec.Ref = ref
		_, err = api.Update(ctx, d, metav1.UpdateOptions{})
		must(s.t, err)
		return
	}
	d, err = api.Create(ctx, &servingv1beta1.DomainMapping{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: servingv1beta1.DomainMappingSpec{Ref: ref},
	}, metav1.CreateOptions{})
	must(s.t, err)
	d.Status.URL = apis.HTTP(name)
	d.Status.ObservedGeneration = d.Generation
	d.Status.Conditions = duckv1.Conditions{{
		Type: apis.ConditionReady, Status: corev1.ConditionTrue,
		LastTransitionTime: now(),
	}}
	_, err = api.UpdateStatus(ctx, d, metav1.UpdateOptions{})
	must(s.t, err)
}

// remove deletes a Service with its dependents. The garbage collector does not run here.
func (s servingController) remove(name string) {
	s.t.Helper()
	ctx := context.WithoutCancel(s.t.Context())
	must(s.t, s.ServingV1().Services(namespace).Delete(ctx, name, metav1.DeleteOptions{}))
	must(s.t, s.ServingV1().Routes(namespace).Delete(ctx, name, metav1.DeleteOptions{}))
	must(s.t, s.ServingV1().Revisions(namespace).DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: serving.ServiceLabelKey + "=" + name}))
}

// TestAgainstARealAPIServer is a single test because its steps build on each other.
func TestAgainstARealAPIServer(t *testing.T) {
	cp := controlplane.Start(t)
	first := run(t, cp.Config())
	must(t, cp.InstallServing(t.Context()))
	knative, err := versioned.NewForConfig(cp.Config())
	must(t, err)
	s := servingController{knative, t}

	// Serving was installed after the controller started. Its first Service is still announced.
	time.Sleep(time.Second) // creationTimestamps have a resolution of one second
	cart := s.create("cart")
	s.revise(cart, 1)
	s.route("cart", 1)
	began := []string{"Created", "RevisionReady", "Deployed", "Published"}
	first.want(t, "cart", began...)
	all := slices.Clone(began)
	and := func(more ...string) {
		t.Helper()
		all = append(all, more...)
		first.want(t, "cart", all...)
	}
	s.domain("cart.example.org", "cart")
	and("Published")
	s.domain("cart.example.org", "another") // now maps to another Service
	and("Published")
	s.revise(cart, 2)
	s.route("cart", 2)
	and("RevisionReady", "Upgraded")
	s.route("cart", 1)
	and("RolledBack")
	first.stop()

	// While no controller runs: one Service stays, one is deleted, one is recreated under the
	// same name, and one is new.
	gone := s.create("gone")
	s.revise(gone, 1)
	s.route("gone", 1)
	again := s.create("again")
	s.revise(again, 1)
	s.route("again", 1)
	second := run(t, cp.Config())
	second.want(t, "gone", began...)
	second.want(t, "again", began...)
	second.quiet(t, "cart") // unchanged
	second.stop()

	s.remove("gone")
	s.remove("again")
	again = s.create("again")
	s.revise(again, 1)
	s.route("again", 1)
	s.create("fresh")
	third := run(t, cp.Config())
	third.want(t, "gone", "Removed")
	third.want(t, "again", append([]string{"Removed"}, began...)...)
	third.want(t, "fresh", "Created")
	third.quiet(t, "cart")

	// Uninstalling Serving removes all Services.
	must(t, cp.RemoveServing(t.Context()))
	third.want(t, "cart", "Removed")
	third.want(t, "again", append(append([]string{"Removed"}, began...), "Removed")...)
	must(t, cp.InstallServing(t.Context()))
	back := s.create("cart")
	if back.UID == cart.UID {
		t.Fatal("the new Service has the UID of the old one")
	}
	third.want(t, "cart", "Removed", "Created")
	third.stop()

	// With an empty ledger, existing objects are the baseline and are not announced.
	ours, err := client.New(cp.Config())
	must(t, err)
	must(t, ours.CDEventSubjects(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	must(t, ours.CDEventBaselines(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	time.Sleep(1100 * time.Millisecond)
	s.revise(back, 1)
	s.route("cart", 1)
	fourth := run(t, cp.Config())
	fourth.quiet(t, "cart")
	subjects, err := ours.CDEventSubjects(namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if !slices.ContainsFunc(subjects.Items, func(o v1alpha1.CDEventSubject) bool {
		return o.Spec.UID == back.UID && o.Status.Sequence == 0 && o.Status.Memory != ""
	}) {
		t.Errorf("the baseline is not in the ledger: %+v", subjects.Items)
	}
	s.revise(back, 2)
	s.route("cart", 2)
	fourth.want(t, "cart", "RevisionReady", "Upgraded")
}

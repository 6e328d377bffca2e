// SPDX-License-Identifier: Apache-2.0

package oneshot_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	"knative.dev/pkg/system"
	_ "knative.dev/pkg/system/testing" // sets SYSTEM_NAMESPACE
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	"knative.dev/serving/pkg/client/clientset/versioned"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/reconciler/oneshot"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
	"github.com/knative-cdevents/knative-cdevents/test/sink"
)

const controllerNamespace = "knative-cdevents"

var cart = types.NamespacedName{Namespace: "shop", Name: "cart"}

// takes checks what a sink has received.
func takes(t *testing.T, to *sink.Sink, what string, want ...string) {
	t.Helper()
	if got := to.Take(); !slices.Equal(got, want) {
		t.Errorf("%s: received %q, want %q", what, got, want)
	}
}

// requests counts what is asked of the API server.
type requests struct {
	mu  sync.Mutex
	all map[string]int
}

type counting struct {
	*requests
	next http.RoundTripper
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	resource := parts[len(parts)-1] // of all namespaces
	if i := slices.Index(parts, "namespaces"); i >= 0 && i+2 < len(parts) {
		resource = parts[i+2]
	}
	c.mu.Lock()
	c.all[r.Method+" "+cmp.Or(resource, "?")]++
	c.mu.Unlock()
	return c.next.RoundTrip(r)
}

func (r *requests) take(t *testing.T, what string) (n int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.all {
		n += c
	}
	var all []string
	for _, k := range slices.Sorted(maps.Keys(r.all)) {
		all = append(all, fmt.Sprintf("%s ×%d", k, r.all[k]))
	}
	t.Logf("%s: %d requests: %s", what, n, strings.Join(all, ", "))
	r.all = map[string]int{}
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shop does what Serving's controllers do.
type shop struct {
	versioned.Interface
	t *testing.T
}

func (s shop) create(of types.NamespacedName) *servingv1.Service {
	s.t.Helper()
	svc := &servingv1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: of.Name}}
	svc.Spec.Template.Spec.Containers = []corev1.Container{{Image: "registry/app"}}
	svc, err := s.ServingV1().Services(of.Namespace).Create(s.t.Context(), svc, metav1.CreateOptions{})
	must(s.t, err)
	yes := true
	_, err = s.ServingV1().Routes(of.Namespace).Create(s.t.Context(), &servingv1.Route{ObjectMeta: metav1.ObjectMeta{
		Namespace: of.Namespace, Name: of.Name, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "serving.knative.dev/v1", Kind: "Service", Name: of.Name, UID: svc.UID, Controller: &yes,
		}},
	}}, metav1.CreateOptions{})
	must(s.t, err)
	return svc
}

// route makes a Revision, and sends it all traffic.
func (s shop) route(svc *servingv1.Service, n int) {
	s.t.Helper()
	ctx, now := s.t.Context(), apis.VolatileTime{Inner: metav1.Now()}
	ready := duckv1.Conditions{{Type: apis.ConditionReady, Status: corev1.ConditionTrue, LastTransitionTime: now}}
	rev := &servingv1.Revision{ObjectMeta: metav1.ObjectMeta{
		Namespace: cart.Namespace, Name: fmt.Sprintf("cart-%05d", n), Labels: map[string]string{
			serving.ServiceLabelKey: cart.Name, serving.ServiceUIDLabelKey: string(svc.UID),
			serving.ConfigurationGenerationLabelKey: fmt.Sprint(n),
		},
	}}
	rev.Spec.Containers = []corev1.Container{{Name: "app", Image: fmt.Sprintf("registry/app:%d", n)}}
	rev, err := s.ServingV1().Revisions(cart.Namespace).Create(ctx, rev, metav1.CreateOptions{})
	must(s.t, err)
	rev.Status.Conditions = ready
	rev.Status.ContainerStatuses = []servingv1.ContainerStatus{{Name: "app", ImageDigest: fmt.Sprintf("registry/app@sha256:%064d", n)}}
	_, err = s.ServingV1().Revisions(cart.Namespace).UpdateStatus(ctx, rev, metav1.UpdateOptions{})
	must(s.t, err)
	r, err := s.ServingV1().Routes(cart.Namespace).Get(ctx, cart.Name, metav1.GetOptions{})
	must(s.t, err)
	all, latest := int64(100), false
	r.Status.ObservedGeneration, r.Status.URL, r.Status.Conditions = r.Generation, apis.HTTP("cart.example.com"), ready
	r.Status.Traffic = []servingv1.TrafficTarget{{RevisionName: rev.Name, Percent: &all, LatestRevision: &latest}}
	_, err = s.ServingV1().Routes(cart.Namespace).UpdateStatus(ctx, r, metav1.UpdateOptions{})
	must(s.t, err)
	svc, err = s.ServingV1().Services(cart.Namespace).Get(ctx, cart.Name, metav1.GetOptions{})
	must(s.t, err)
	svc.Status.ObservedGeneration, svc.Status.Conditions = svc.Generation, ready
	_, err = s.ServingV1().Services(cart.Namespace).UpdateStatus(ctx, svc, metav1.UpdateOptions{})
	must(s.t, err)
}

// The whole life of a Service, with a real API server.
func TestCoreAgainstARealAPIServer(t *testing.T) {
	t.Setenv(system.NamespaceEnvKey, controllerNamespace)
	cp, ctx := controlplane.Start(t), t.Context()
	must(t, cp.InstallServing(ctx))
	config := cp.Config()
	kube, err := kubernetes.NewForConfig(config)
	must(t, err)
	for _, ns := range []string{controllerNamespace, cart.Namespace} {
		_, err := kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
		must(t, err)
	}
	ours, err := client.New(config)
	must(t, err)
	knative, err := versioned.NewForConfig(config)
	must(t, err)

	asked, to := &requests{all: map[string]int{}}, &sink.Sink{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{asked, next} })
	options, err := oneshot.Connect(ctx, config, controllerNamespace, sink.Uncounted{})
	must(t, err)
	options.Transport = to
	one, other := oneshot.New(options), oneshot.New(options)
	process := func(what string) (oneshot.Outcome, int) {
		t.Helper()
		out, err := one.Process(ctx, cart)
		must(t, err)
		return out, asked.take(t, what)
	}

	asked.take(t, "connecting")
	must(t, one.Sweep(ctx))
	asked.take(t, "the first sweep")
	source := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{Namespace: cart.Namespace, Name: "all"}}
	source.Spec.Sink.URI = apis.HTTP("sink.example")
	_, err = ours.CDEventSources(cart.Namespace).Create(ctx, source, metav1.CreateOptions{})
	must(t, err)
	must(t, one.Source(ctx, types.NamespacedName{Namespace: cart.Namespace, Name: "all"}))
	asked.take(t, "a new source")
	source, err = ours.CDEventSources(cart.Namespace).Get(ctx, "all", metav1.GetOptions{})
	must(t, err)
	if source.Status.SinkURI == nil || source.Status.ObservedGeneration != source.Generation {
		t.Fatalf("the status of the source: %+v", source.Status)
	}

	time.Sleep(1100 * time.Millisecond) // whole seconds tell what is older than the baseline
	world := shop{knative, t}
	svc := world.create(cart)
	process("a new Service")
	world.route(svc, 1)
	process("its first Revision")
	takes(t, to, "deployed", "created", "ready", "deployed", "published")
	if out, n := process("nothing new"); n > 12 || !out.Wake.IsZero() {
		t.Errorf("%d requests when nothing is new, to be asked again at %s", n, out.Wake)
	}
	takes(t, to, "nothing new")

	to.SetDown(true)
	world.route(svc, 2)
	out, _ := process("an upgrade, and the sink is down")
	entries, err := ours.CDEventSubjects(controllerNamespace).List(ctx, metav1.ListOptions{})
	must(t, err)
	entry := entries.Items[0]
	if a := entry.Status.Attempts; len(a) != 1 || a[0].Tries < 2 || out.Wake.IsZero() ||
		entry.Annotations[v1alpha1.WakeAnnotation] != out.Wake.UTC().Format(time.RFC3339) {
		t.Errorf("attempts %+v, annotations %q, to be asked again at %s", a, entry.Annotations, out.Wake)
	}
	to.SetDown(false)
	time.Sleep(time.Until(out.Wake) + time.Second)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			core := one
			if i%2 == 0 {
				core = other
			}
			if _, err := core.Process(ctx, cart); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	asked.take(t, "eight calls at once, of two cores")
	takes(t, to, "the sink is up again", "ready", "upgraded")

	must(t, knative.ServingV1().Services(cart.Namespace).Delete(ctx, cart.Name, metav1.DeleteOptions{}))
	must(t, other.Sweep(ctx))
	asked.take(t, "a sweep after a deletion")
	takes(t, to, "deleted", "removed")
	entries, err = ours.CDEventSubjects(controllerNamespace).List(ctx, metav1.ListOptions{})
	must(t, err)
	if len(entries.Items) != 1 || entries.Items[0].Annotations[v1alpha1.WakeAnnotation] == "" {
		t.Errorf("nobody will delete %d entries: %+v", len(entries.Items), entries.Items[0].ObjectMeta)
	}
	options.Now = func() time.Time { return time.Now().Add(11 * time.Minute) }
	_, err = oneshot.New(options).Process(ctx, cart)
	must(t, err)
	entries, err = ours.CDEventSubjects(controllerNamespace).List(ctx, metav1.ListOptions{})
	must(t, err)
	if len(entries.Items) != 0 {
		t.Errorf("%d entries are left", len(entries.Items))
	}
	takes(t, to, "collected")
}

// What a sweep at rest asks for grows with the pages of lists, and with neither Services nor namespaces.
func TestRequestsOfASweepAtRest(t *testing.T) {
	cp, ctx := controlplane.Start(t), t.Context()
	must(t, cp.InstallServing(ctx))
	config := cp.Config()
	kube, err := kubernetes.NewForConfig(config)
	must(t, err)
	knative, err := versioned.NewForConfig(config)
	must(t, err)
	asked := &requests{all: map[string]int{}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{asked, next} })
	options, err := oneshot.Connect(ctx, config, controllerNamespace, sink.Uncounted{})
	must(t, err)
	core := oneshot.New(options)

	add := func(ns string, services int) {
		t.Helper()
		_, err := kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
		must(t, err)
		for i := range services {
			of := types.NamespacedName{Namespace: ns, Name: fmt.Sprintf("cart-%d", i)}
			shop{knative, t}.create(of) //nolint:contextcheck // it has that of the test
		}
	}
	atRest := func(services int) int {
		t.Helper()
		must(t, core.Sweep(ctx))
		all := asked.take(t, fmt.Sprintf("a sweep that finds %d Services", services))
		must(t, core.Sweep(ctx))
		n := asked.take(t, "at rest")
		if all < n+services {
			t.Errorf("a sweep that finds %d Services asks for %d, at rest for %d", services, all, n)
		}
		return n
	}
	add(controllerNamespace, 0)
	add("shop", 10)
	before := atRest(10)
	for i := range 10 {
		add(fmt.Sprintf("shop-%d", i), 2)
	}
	// Services, Routes and CDEventSubjects take three pages of ten instead of one.
	if n := atRest(20) - before; n != 3*2 {
		t.Errorf("20 Services more take %d requests more", n)
	}
}

// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

const sidecarContainer = "stateful-sidecar"

// TestSidecar makes an application that knows nothing of pods a member, by annotations alone.
func TestSidecar(t *testing.T) {
	sideBySide(t)
	onlyInFull(t)
	withInjector(t)
	t.Run("RollOut", func(t *testing.T) {
		s := newScene(t)
		s.source("source", service("sink"), production)
		s.rollOut(s.plain(), nil)
	})
	t.Run("Gate", func(t *testing.T) {
		s := emptyScene(t)
		app := s.plain()
		run, report := s.badRelease(app)
		if run.Verdict != verdict.Fail || run.Canary.Name != app.Canary() || slices.Contains(run.Reasons, string(verdict.ExposureMismatch)) {
			t.Errorf("the run ended as %s", compact(run))
		}
		if report.HandledShare == nil || math.Abs(*report.HandledShare-.2) > .01 {
			t.Error("want a share of 0.2 within 0.01")
		}
	})
	t.Run("Broker", func(t *testing.T) { emptyScene(t).overBroker() })
	t.Run("Drain", func(t *testing.T) { emptyScene(t).drains() })
	t.Run("Ordinary", func(t *testing.T) { ordinary(t) })
	t.Run("Other", func(t *testing.T) { emptyScene(t).other() })
	t.Run("Missing", func(t *testing.T) { newScene(t).missing() })
	if suite.Own() {
		t.Run("Killed", func(t *testing.T) { emptyScene(t).kills() })
	}
	t.Run("InQueueProxy", func(t *testing.T) {
		s := newScene(t)
		s.releasedServing()
		s.source("source", service("sink"), production)
		app := s.plain()
		app.Annotations = map[string]string{v1alpha1.AnnotationProxy: v1alpha1.ProxyQueueProxy}
		s.rollOut(app, nil)
		s.drainsPod(app, s.clients(app))
	})
}

// releasedServing labels Serving's CRD as its releases do. The cluster of test/cluster builds it from source.
func (s *scene) releasedServing() {
	s.Helper()
	crds := suite.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	label := func(ctx context.Context, version string) {
		patch := []byte(`{"metadata":{"labels":{"app.kubernetes.io/version":"` + version + `"}}}`)
		_, err := crds.Patch(ctx, "services.serving.knative.dev", types.MergePatchType, patch, metav1.PatchOptions{})
		s.must(err)
	}
	crd, err := crds.Get(s.Context(), "services.serving.knative.dev", metav1.GetOptions{})
	s.must(err)
	if was := crd.GetLabels()["app.kubernetes.io/version"]; was == "devel" {
		s.Cleanup(func() { label(context.WithoutCancel(s.Context()), was) })
		label(s.Context(), "1.23.0")
	}
}

// TestSidecarDisturbed takes away what the sidecars depend on.
func TestSidecarDisturbed(t *testing.T) {
	onlyInFull(t)
	withInjector(t)
	t.Run("UnderLoad", func(t *testing.T) {
		s := emptyScene(t)
		s.underLoad(s.patient())
	})
	t.Run("ControllerAway", func(t *testing.T) {
		s := emptyScene(t)
		s.controllerAway(s.patient())
	})
	t.Run("InjectorAway", func(t *testing.T) { emptyScene(t).injectorAway() })
	if suite.Own() {
		t.Run("RestartTogether", func(t *testing.T) { emptyScene(t).restartsTogether() })
	}
}

// withInjector installs the injector for a test.
func withInjector(t *testing.T) {
	t.Helper()
	if suite.guest {
		t.Skip("it needs the controller")
	}
	t.Cleanup(func() {
		if err := suite.Injector.Uninstall(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if err := suite.Injector.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// plain is the application of test/apps/cart in a namespace that has opted in.
func (s *scene) plain() *kit.Cart {
	s.Helper()
	s.must(suite.Injector.OptIn(s.Context(), s.ns))
	return s.notOptedIn()
}

func (s *scene) notOptedIn() *kit.Cart {
	s.Helper()
	image, err := suite.Image(s.Context(), "./test/apps/cart")
	s.must(err)
	app := suite.Carts.Plain(s.ns, image)
	app.Tagged = true
	return app
}

// patient is the same for faults: its requests wait for longer than a hand-over takes on a busy machine.
func (s *scene) patient() *kit.Cart {
	s.Helper()
	app := s.plain()
	app.Annotations = map[string]string{"stateful.knative-cdevents.dev/patience": "20s"}
	return app
}

// overBroker sends events through a Broker and a Trigger. All that are about one cart are handled by one pod.
func (s *scene) overBroker() {
	s.Helper()
	ctx := s.Context()
	app := s.plain()
	app.Annotations = map[string]string{"stateful.knative-cdevents.dev/key": "event:subject"}
	locks := s.locked(app)
	s.must(suite.Carts.Deploy(ctx, app))
	s.must(suite.Apply(ctx, s.ns, `
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: default}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: cart}
spec:
  broker: default
  subscriber: {uri: /events, ref: {apiVersion: serving.knative.dev/v1, kind: Service, name: cart}}
`))
	eventing := schema.GroupVersion{Group: "eventing.knative.dev", Version: "v1"}
	s.must(suite.WaitReady(ctx, eventing.WithResource("brokers"), s.ns, "default"))
	s.must(suite.WaitReady(ctx, eventing.WithResource("triggers"), s.ns, "cart"))
	const sent, carts = 400, 40
	for i := range sent {
		err := suite.Kube.CoreV1().RESTClient().Post().
			AbsPath("/api/v1/namespaces/knative-eventing/services/http:broker-ingress:80/proxy", s.ns, "default").
			SetHeader("Ce-Specversion", "1.0").SetHeader("Ce-Id", fmt.Sprint(i)).SetHeader("Ce-Source", "/shop").
			SetHeader("Ce-Type", "cart.changed").SetHeader("Ce-Subject", fmt.Sprintf("cart-%d", i%carts)).
			SetHeader("Content-Type", "application/json").Body([]byte("{}")).Do(ctx).Error()
		s.must(err)
	}
	var counted *kit.Truth
	s.must(kit.Wait(ctx, time.Minute, "all events", func(ctx context.Context) (err error) {
		if counted, err = suite.Carts.Counted(ctx, app); err != nil {
			return kit.NotYet("%v", err)
		}
		if n := counted.Handled[app.Stable()]["ok"]; n < sent {
			return kit.NotYet("%d of %d", n, sent)
		}
		return nil
	}))
	keyless := s.sum(app, "stateful_requests_without_key_total")
	s.Logf("%d events about %d carts, %d handled without a key\n%s", sent, carts, keyless, counted)
	if n := counted.Handled[app.Stable()].All(); n != sent || keyless > 0 {
		s.Errorf("%d events were handled, and %d had no key; want %d and 0: %v", n, keyless, sent, counted.Handled)
	}
	if len(counted.Pods) != 2 || s.sum(app, "stateful_requests_forwarded_total") == 0 {
		s.Errorf("no event was forwarded, so this shows nothing: %v", counted.Pods)
	}
	s.neverTwice(locks, app)
}

// drains ends a pod while it handles long requests. Each of them is answered.
func (s *scene) drains() {
	s.Helper()
	app := s.plain()
	locks, clients := s.withCanary(app)
	s.neverTwice(locks, app, s.drainsPod(app, clients))
}

// drainsPod does this without looking at the locks, and returns the pod.
func (s *scene) drainsPod(app *kit.Cart, clients *kit.Clients) string {
	s.Helper()
	ctx := s.Context()
	pod := s.secondStable(app)
	const long = 8 * time.Second
	var group sync.WaitGroup
	answers := make([]kit.CartAnswer, 12)
	errs := make([]error, len(answers))
	for i := range answers {
		group.Go(func() { answers[i], errs[i] = clients.Hold(ctx, i, long) })
	}
	time.Sleep(time.Second)
	s.must(suite.Workloads.Evict(ctx, s.ns, pod.Name))
	group.Wait()
	there := 0
	for i, a := range answers {
		if errs[i] != nil || a.Outcome != "ok" {
			s.Errorf("%+v, %v", a, errs[i])
		}
		if a.Handled.Pod == pod.Name {
			there++
		}
	}
	if s.Logf("the pod that ended handled %d of %d long requests", there, len(answers)); there == 0 {
		s.Error("none of the requests was in the pod that ended, so this shows nothing")
	}
	s.must(suite.Carts.WaitOneCluster(ctx, app))
	// A member takes a shard that nobody holds with the first request for it.
	s.must(clients.Send(ctx, clients.Carts))
	s.owners(app, 0)
	return pod.Name
}

func (s *scene) clients(app *kit.Cart) *kit.Clients {
	s.Helper()
	clients, err := suite.Carts.Clients(s.Context(), app)
	s.must(err)
	s.must(clients.SendUntil(s.Context(), app.Stable()))
	return clients
}

// kills ends the sidecar of a pod, and then its container, by SIGKILL. No cart is ever handled in two pods at once.
func (s *scene) kills() {
	s.Helper()
	app := s.patient()
	locks, clients := s.withCanary(app)
	s.must(suite.Carts.Split(s.Context(), app, 20))
	s.owners(app, 20)
	for _, container := range []string{sidecarContainer, "cart"} {
		stop := background(s.Context(), clients)
		pod := s.secondStable(app)
		began := time.Now()
		s.must(suite.Workloads.SignalContainer(s.Context(), "KILL", pod, container))
		s.restarted(pod, container)
		s.owners(app, 20)
		took := time.Since(began).Round(time.Second)
		stop()
		s.Logf("%s was killed; all shards were placed %s later; what the clients got in all\n%s", container, took, clients.Truth())
		s.neverTwiceCarts(locks)
	}
	// All is as it was.
	was := clients.Truth().Handled[""].All() + lost(clients)
	s.must(clients.Send(s.Context(), 300))
	if now := clients.Truth().Handled[""].All() + lost(clients); now != was {
		s.Errorf("%d of 300 requests got no answer afterwards", now-was)
	}
}

// restartsTogether does the same with a pod whose containers restart as soon as the sidecar ends.
func (s *scene) restartsTogether() {
	s.Helper()
	ctx := s.Context()
	s.must(suite.Injector.Set(ctx, "RESTART_TOGETHER", "true"))
	defer func() { s.must(suite.Injector.Set(context.WithoutCancel(ctx), "RESTART_TOGETHER", "false")) }()
	app := s.patient()
	locks, clients := s.withCanary(app)
	stop := background(ctx, clients)
	pod := s.secondStable(app)
	began := time.Now()
	s.must(suite.Workloads.SignalContainer(ctx, "KILL", pod, sidecarContainer))
	s.restarted(pod, sidecarContainer)
	s.restarted(pod, "cart")
	s.owners(app, 0)
	took := time.Since(began).Round(time.Second)
	stop()
	s.Logf("all shards were placed %s after the sidecar was killed; what the clients got\n%s", took, clients.Truth())
	s.neverTwice(locks, app, pod.Name)
}

// restarted waits until a container of a pod was started again, and the pod is ready.
func (s *scene) restarted(p *corev1.Pod, container string) {
	s.Helper()
	s.must(kit.Wait(s.Context(), 2*time.Minute, container+" of "+p.Name, func(ctx context.Context) error {
		now, err := suite.Kube.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		restarts := func(p *corev1.Pod) (n int32, ready bool) {
			for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
				if c.Name == container {
					n += c.RestartCount
				}
			}
			return n, slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			})
		}
		before, _ := restarts(p)
		if n, ready := restarts(now); n <= before || !ready {
			return kit.NotYet("%d restarts, ready: %v", n, ready)
		}
		return nil
	}))
}

// neverTwiceCarts checks that no cart was handled in two pods at once. The lock of a shard says less after a sidecar was
// killed: its container is not told that the shard has left.
func (s *scene) neverTwiceCarts(server kit.Server) {
	s.Helper()
	saw, err := suite.Locks(s.Context(), server)
	s.must(err)
	s.Logf("%d locks were taken, %d held twice; the first ones: %+v", saw.Taken, saw.HeldTwice, saw.Twice)
	for _, twice := range saw.Twice {
		if strings.HasPrefix(twice.Lock, "cart-") {
			s.Errorf("%s was handled in pod %s while it was handled in %v", twice.Lock, twice.Taker, twice.Holders)
		}
	}
	if saw.Taken == 0 || saw.HeldTwice > len(saw.Twice) {
		s.Errorf("%d locks were taken, and %d of %d that were held twice are listed", saw.Taken, len(saw.Twice), saw.HeldTwice)
	}
}

func lost(c *kit.Clients) (n int) {
	for _, one := range c.Truth().Lost {
		n += one
	}
	return n
}

// other has a sidecar that is not of this project, which ConfigMap config-sidecars describes.
func (s *scene) other() {
	s.Helper()
	ctx := s.Context()
	image, err := suite.Image(ctx, "./test/apps/relay")
	s.must(err)
	configure := func(ctx context.Context, entry any) {
		patch, err := json.Marshal(map[string]any{"data": map[string]any{"relay": entry}})
		s.must(err)
		_, err = suite.Kube.CoreV1().ConfigMaps(kit.Namespace).Patch(ctx, "config-sidecars", types.MergePatchType, patch, metav1.PatchOptions{})
		s.must(err)
	}
	s.Cleanup(func() { configure(context.WithoutCancel(ctx), nil) })
	configure(ctx, `
container:
  name: relay
  image: `+image+`
  env: [{name: PORT, value: "8600"}]
userPort: 8600
applicationPort: APPLICATION_PORT
readiness: {path: /relay/ready, port: 8600}
environment: {GREETING: example.com/greeting}
`)
	s.must(suite.Injector.OptIn(ctx, s.ns))
	service := kit.App(s.ns, "shop", suite.app, "")
	service.Spec.Template.Annotations = map[string]string{
		v1alpha1.AnnotationRuntime: string(v1alpha1.RuntimeCustom), v1alpha1.AnnotationProxy: "relay", "example.com/greeting": "hello",
		"autoscaling.knative.dev/min-scale": "1",
	}
	// The injector may not know the ConfigMap yet, and says which sidecars there are.
	s.must(kit.Wait(ctx, time.Minute, "the sidecar to be known", func(ctx context.Context) error {
		_, err := suite.Serving.ServingV1().Services(s.ns).Create(ctx, service, metav1.CreateOptions{})
		if err != nil && strings.Contains(err.Error(), "config-sidecars") {
			return kit.NotYet("%v", err)
		}
		return err
	}))
	ready, err := suite.Services.Wait(ctx, s.ns, "shop", "")
	s.must(err)
	in, err := suite.Services.Ingress(ctx)
	s.must(err)
	s.must(kit.Wait(ctx, time.Minute, "an answer", func(ctx context.Context) error {
		if a, err := in.Get(ctx, ready.Status.URL.URL()); err != nil || a.Status != http.StatusOK {
			return kit.NotYet("%+v, %v", a, err)
		}
		return nil
	}))
	pods, err := suite.Kube.CoreV1().Pods(s.ns).List(ctx, metav1.ListOptions{LabelSelector: "serving.knative.dev/service=shop"})
	s.must(err)
	said, err := suite.Kube.CoreV1().Pods(s.ns).GetLogs(pods.Items[0].Name, &corev1.PodLogOptions{Container: "relay"}).DoRaw(ctx)
	s.must(err)
	if !strings.Contains(string(said), `hello: "/"`) {
		s.Errorf("the request did not pass the sidecar: %s", said)
	}
}

// missing declares a sidecar in a namespace whose pods get none. This is an incident until they are made anew with the
// label.
func (s *scene) missing() {
	s.Helper()
	ctx := s.Context()
	s.source("source", service("sink"), production)
	app := s.notOptedIn()
	s.must(suite.Carts.DeployAlone(ctx, app))
	events := s.eventsWith(detected)
	if e := events[find(events, detected)]; !strings.Contains(string(e.Body), "SidecarMissing") {
		s.Errorf("the incident is %s", e.Body)
	}
	programs := s.TempDir()
	s.must(suite.Plugin(ctx, programs))
	for command, says := range map[string]string{"list": "cluster: SidecarMissing", "why service/cart": "delete the pods that have no container stateful-sidecar"} {
		s.must(kit.Wait(ctx, time.Minute, "what the plugin says", func(ctx context.Context) error {
			out, err := suite.Shell(ctx, programs, "kubectl cdevents "+command+" -n $NS", map[string]string{"NS": s.ns})
			if !strings.Contains(out, says) {
				return kit.NotYet("%s: %s (%v)", command, out, err)
			}
			s.Logf("%s", out)
			return nil
		}))
	}
	s.must(suite.Injector.OptIn(ctx, s.ns))
	s.must(suite.Kube.CoreV1().Pods(s.ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: app.Selector()}))
	s.eventsWith(detected, resolved)
	s.must(suite.Carts.WaitOneCluster(ctx, app))
}

// injectorAway shows what goes on without the injector, and what waits for it.
func (s *scene) injectorAway() {
	s.Helper()
	ctx := s.Context()
	app := s.plain()
	locks, clients := s.withCanary(app)
	s.must(suite.Carts.Split(ctx, app, 0)) // with a tag, the canary stays
	s.must(suite.Injector.Scale(ctx, 0))
	back := sync.OnceFunc(func() { s.must(suite.Injector.Scale(context.WithoutCancel(ctx), 2)) })
	defer back()
	s.must(clients.Send(ctx, 200))
	// An ordinary Service in the same namespace does not notice.
	s.must(suite.Services.Create(ctx, kit.App(s.ns, "ordinary", suite.app, "")))
	_, err := suite.Services.Wait(ctx, s.ns, "ordinary", "")
	s.must(err)
	pod := s.secondStable(app)
	s.must(suite.Workloads.Evict(ctx, s.ns, pod.Name))
	s.must(kit.Wait(ctx, time.Minute, "a refused pod", func(ctx context.Context) error {
		events, err := suite.Kube.CoreV1().Events(s.ns).List(ctx, metav1.ListOptions{FieldSelector: "reason=FailedCreate"})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if strings.Contains(e.Message, "pods.sidecar.knative-cdevents.dev") {
				s.Logf("what a user sees: %s", e.Message)
				return nil
			}
		}
		return kit.NotYet("%d events of other reasons", len(events.Items))
	}))
	s.must(clients.Send(ctx, 200))
	back()
	// The ReplicaSet controller tries less and less often; what the runbook says makes it try now.
	(&watched{scene: s, programs: s.TempDir()}).does("SidecarInjectorUnreachable", "cart", "kubectl annotate")
	s.must(kit.Wait(ctx, 2*time.Minute, "three pods", func(ctx context.Context) error {
		pods, err := suite.Carts.Pods(ctx, app)
		if err != nil {
			return err
		}
		if len(pods) != 3 {
			return kit.NotYet("there are %d", len(pods))
		}
		return nil
	}))
	s.must(suite.Carts.WaitOneCluster(ctx, app))
	s.must(clients.Send(ctx, clients.Carts))
	s.owners(app, 0)
	if truth := clients.Truth(); len(truth.Lost) > 0 {
		s.Errorf("requests were not answered: %v", truth.Lost)
	}
	s.neverTwice(locks, app, pod.Name)
}

// ordinary shows that a Service that declares no sidecar gets the pods that it gets elsewhere.
func ordinary(t *testing.T) {
	specs := map[bool]any{}
	for _, optedIn := range []bool{false, true} {
		s := emptyScene(t)
		if optedIn {
			s.must(suite.Injector.OptIn(t.Context(), s.ns))
		}
		s.must(suite.Services.Create(t.Context(), kit.App(s.ns, "ordinary", suite.app, "")))
		_, err := suite.Services.Wait(t.Context(), s.ns, "ordinary", "")
		s.must(err)
		pods, err := suite.Kube.CoreV1().Pods(s.ns).List(t.Context(), metav1.ListOptions{LabelSelector: "serving.knative.dev/service=ordinary"})
		s.must(err)
		if len(pods.Items) == 0 {
			t.Fatal("no pod")
		}
		text := strings.ReplaceAll(compact(pods.Items[0].Spec), s.ns, "NAMESPACE")
		text = regexp.MustCompile(`kube-api-access-[a-z0-9]+`).ReplaceAllString(text, "ACCESS")
		var spec any
		s.must(json.Unmarshal([]byte(text), &spec))
		specs[optedIn] = spec
	}
	if diff := cmp.Diff(specs[false], specs[true]); diff != "" {
		t.Errorf("the pod of an ordinary Service differs:\n%s", diff)
	}
}

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

// TestSidecar makes an application that knows nothing of pods a member, by annotations alone.
func TestSidecar(t *testing.T) {
	sideBySide(t)
	onlyInFull(t)
	withInjector(t)
	t.Run("RollOut", func(t *testing.T) {
		s := newScene(t)
		s.source("source", service("sink"), production)
		s.rollOut(s.plain(), nil)
		s.namesSidecar()
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
		s.namesSidecar()
		s.drainsPod(app, s.clients(app))
	})
}

// namesSidecar checks that each Revision is announced with the sidecar of its pods, which its template does not name.
func (s *scene) namesSidecar() {
	s.Helper()
	sidecar := regexp.MustCompile(`"container":"stateful-sidecar","image":"[^"]+@sha256:[0-9a-f]{64}","digest":"[^"]+@sha256:[0-9a-f]{64}"`)
	ready := 0
	for _, e := range s.eventsWith(revisionReady) {
		if e.Header.Get("Ce-Type") != revisionReady {
			continue
		}
		if ready++; !sidecar.Match(e.Body) {
			s.Errorf("a ready Revision is announced without the image of its sidecar: %s", e.Body)
		}
	}
	if ready < 2 {
		s.Errorf("%d Revisions were announced as ready, want 2", ready)
	}
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

// other has a sidecar that is not of this project, which ConfigMap config-sidecars describes.
func (s *scene) other() {
	s.Helper()
	ctx := s.Context()
	image, err := suite.Image(ctx, "./test/apps/relay")
	s.must(err)
	s.namedSidecar("relay", `
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
	s.untilNamed(func(ctx context.Context) error {
		_, err := suite.Serving.ServingV1().Services(s.ns).Create(ctx, service, metav1.CreateOptions{})
		return err
	})
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

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	servingclient "knative.dev/serving/pkg/client/clientset/versioned"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/reconciler/sidecar"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

// TestAdmission asks a real API server, which asks the injector with the permissions of its ServiceAccount.
func TestAdmission(t *testing.T) {
	if testing.Short() && os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("it would build an API server")
	}
	cp := controlplane.Start(t)
	if err := cp.InstallServing(t.Context()); err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	serving, err := servingclient.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, kube: kube, serving: serving}
	at := freePort(t)
	w.install(cp.Config(), at)
	w.namespace("shop", map[string]string{"knative-cdevents.dev/sidecar": "enabled"})
	w.namespace("other", nil)

	w.away("before the injector runs")
	stop := inject(t, cp.As("system:serviceaccount:"+namespace+":"+component), at)
	w.waitForInjector()

	t.Run("injected", func(t *testing.T) { w.on(t).injected() })
	t.Run("untouched", func(t *testing.T) { w.on(t).untouched() })
	t.Run("refused", func(t *testing.T) { w.on(t).refused() })
	t.Run("templates", func(t *testing.T) { w.on(t).templates() })
	t.Run("proxies", func(t *testing.T) { w.on(t).proxies() })
	t.Run("queue-proxy", func(t *testing.T) { w.on(t).inQueueProxy(cp.Config()) })
	t.Run("restart", func(t *testing.T) { w.on(t).restart() })

	made, err := w.create(w.pod("shop", declaration()))
	if err != nil {
		t.Fatal(err)
	}
	stop()
	w.away("after the injector has ended")
	// What runs goes on: kubelet and users change it without the injector.
	made.Status.Phase = corev1.PodRunning
	if _, err := kube.CoreV1().Pods("shop").UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
	label := []byte(`{"metadata":{"labels":{"a":"b"}}}`)
	if _, err := kube.CoreV1().Pods("shop").Patch(t.Context(), made.Name, types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
}

// injected: a pod is complete, and the API server accepts it; as it is, it is not changed again.
func (w *world) injected() {
	got, err := w.create(w.pod("shop", declaration()))
	if err != nil {
		w.Fatal(err)
	}
	want := w.pod("shop", declaration())
	if err := sidecar.Inject(want, image); err != nil {
		w.Fatal(err)
	}
	// In a namespace without injection, the API server only adds its defaults.
	if want, err = w.create(in("other", want)); err != nil {
		w.Fatal(err)
	}
	if !same(got, want) {
		w.Error(cmp.Diff(want.Spec, got.Spec))
	}
	if len(got.Spec.InitContainers) != 1 || got.Spec.InitContainers[0].Image != image.Image {
		w.Errorf("%+v", got.Spec.InitContainers)
	}
	again, err := w.create(in("shop", got))
	if err != nil || !same(again, got) {
		w.Error(err, cmp.Diff(got.Spec, again.Spec))
	}
}

// untouched: all other pods are as Serving made them.
func (w *world) untouched() {
	for name, pod := range map[string]*corev1.Pod{
		"an ordinary Revision": w.pod("shop", map[string]string{"autoscaling.knative.dev/min-scale": "1"}),
		"another runtime":      w.pod("shop", map[string]string{v1alpha1.AnnotationRuntime: "pekko"}),
		"another namespace":    w.pod("other", declaration()),
		"no Revision":          w.pod("shop", declaration(), serving.RevisionLabelKey),
	} {
		got, err := w.create(pod)
		if err != nil {
			w.Errorf("%s: %v", name, err)
			continue
		}
		want, err := w.create(in("other", pod))
		if err != nil || !same(got, want) || len(got.Spec.InitContainers) > 0 {
			w.Errorf("%s: %v %s", name, err, cmp.Diff(want.Spec, got.Spec))
		}
	}
}

func (w *world) refused() {
	for says, annotations := range map[string]map[string]string{
		`annotation stateful.knative-cdevents.dev/key is "X-User"`:           {v1alpha1.AnnotationRuntime: "sidecar", v1alpha1.AnnotationKey: "X-User"},
		"annotation stateful.knative-cdevents.dev/runtime is missing":        {v1alpha1.AnnotationKey: "header:X-User"},
		"did you mean stateful.knative-cdevents.dev/strict?":                 {v1alpha1.AnnotationRuntime: " sidecar", v1alpha1.AnnotationKey: "header:X-User", v1alpha1.StatefulPrefix + "stirct": "true"},
		"the sidecar of Service shop/cart (Revision cart-00002): annotation": {v1alpha1.AnnotationRuntime: "sidecar"},
	} {
		if _, err := w.create(w.pod("shop", annotations)); err == nil || !strings.Contains(err.Error(), says) {
			w.Errorf("%s: %v", says, err)
		}
	}
}

// templates: a wrong declaration is refused when it is written, and what has none does not wait.
func (w *world) templates() {
	wrong := declaration()
	wrong[v1alpha1.AnnotationKey] = "nowhere"
	if _, err := w.service("shop", "wrong", wrong, 8080); err == nil || !strings.Contains(err.Error(), "spec.template.metadata.annotations") ||
		!strings.Contains(err.Error(), `"nowhere" is not a rule`) {
		w.Error(err)
	}
	if _, err := w.service("shop", "port", declaration(), 8481); err == nil || !strings.Contains(err.Error(), "spec.template.spec.containers[0].ports[0].containerPort") {
		w.Error(err)
	}
	if _, err := w.service("shop", "pekko", map[string]string{v1alpha1.AnnotationRuntime: "peko"}, 8080); err == nil {
		w.Error("a wrong runtime was admitted")
	}
	if _, err := w.service("other", "wrong", wrong, 8080); err != nil {
		w.Errorf("another namespace: %v", err)
	}
	got, err := w.service("shop", "cart", declaration(), 8080)
	if err != nil {
		w.Fatal(err)
	}
	got.Spec.Template.Annotations[v1alpha1.AnnotationShards] = "many"
	if _, err := w.serving.ServingV1().Services("shop").Update(w.Context(), got, metav1.UpdateOptions{}); err == nil {
		w.Error("a wrong change was admitted")
	}
	configuration := &servingv1.Configuration{ObjectMeta: metav1.ObjectMeta{Name: "alone"}, Spec: got.Spec.ConfigurationSpec}
	configuration.Spec.Template.Annotations = declaration()
	_, err = w.serving.ServingV1().Configurations("shop").Create(w.Context(), configuration, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "Configuration alone belongs to no Knative Service") {
		w.Error(err)
	}
	configuration.Name, configuration.Labels = "cart", map[string]string{serving.ServiceLabelKey: "cart"}
	if _, err = w.serving.ServingV1().Configurations("shop").Create(w.Context(), configuration, metav1.CreateOptions{}); err != nil {
		w.Error(err)
	}
}

// proxies: a sidecar that the installation names is injected from when it is named, and others are refused.
func (w *world) proxies() {
	declared := map[string]string{v1alpha1.AnnotationRuntime: "custom", v1alpha1.AnnotationProxy: "session-proxy", "example.com/timeout": "5s"}
	refused := func(says string) bool {
		_, pod := w.create(w.pod("shop", declared))
		_, service := w.service("shop", fmt.Sprint("proxied", w.pods), declared, 8080)
		return pod != nil && service != nil && strings.Contains(pod.Error(), says) && strings.Contains(service.Error(), says)
	}
	if !refused("ConfigMap config-sidecars names no sidecar") {
		w.Error("an unknown sidecar was admitted")
	}
	set := func(value string) {
		data, err := json.Marshal(map[string]any{"data": map[string]string{"session-proxy": value}})
		if err != nil {
			w.Fatal(err)
		}
		if _, err := w.kube.CoreV1().ConfigMaps(namespace).Patch(w.Context(), sidecar.ProxiesConfig, types.MergePatchType, data, metav1.PatchOptions{}); err != nil {
			w.Fatal(err)
		}
	}
	until := func(what string, is func() bool) {
		w.Helper()
		for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				w.Fatal("not in time: ", what)
			}
		}
	}
	set("userPort: 8700\ncontainer: {name: session-proxy, image: i}\nenvironment: {TIMEOUT: example.com/timeout}\napplicationPort: TO")
	until("the sidecar is known", func() bool { return !refused("config-sidecars") })
	got, err := w.create(w.pod("shop", declared))
	if err != nil {
		w.Fatal(err)
	}
	c := got.Spec.InitContainers[0]
	if c.Name != "session-proxy" || c.RestartPolicy == nil || len(c.Env) != 2 || c.Env[0].Value != "8080" || c.Env[1].Value != "5s" {
		w.Errorf("%+v", c)
	}
	set("userPort: many")
	until("the mistake is known", func() bool { return refused("ConfigMap config-sidecars, key session-proxy") })
}

// inQueueProxy: the image of queue-proxy is replaced if Serving is of the version that it was built for.
func (w *world) inQueueProxy(as *rest.Config) {
	client, err := dynamic.NewForConfig(as)
	if err != nil {
		w.Fatal(err)
	}
	declared := declaration()
	declared[v1alpha1.AnnotationProxy] = v1alpha1.ProxyQueueProxy
	serve := func(version string) {
		label := []byte(`{"metadata":{"labels":{"app.kubernetes.io/version":"` + version + `"}}}`)
		_, err := client.Resource(crds).Patch(w.Context(), "services.serving.knative.dev", types.MergePatchType, label, metav1.PatchOptions{})
		if err != nil {
			w.Fatal(err)
		}
	}
	if _, err := w.service("shop", "in-queue-proxy", declared, 8080); err != nil {
		w.Error(err)
	}
	serve("1.24.0")
	if _, err := w.create(w.pod("shop", declared)); err == nil || !strings.Contains(err.Error(), `built for Knative Serving 1.23, and the cluster has "1.24.0"`) {
		w.Error(err)
	}
	serve(sidecar.BuiltFor + ".2")
	got, err := w.create(w.pod("shop", declared))
	if err != nil {
		w.Fatal(err)
	}
	if i := slices.IndexFunc(got.Spec.Containers, func(c corev1.Container) bool { return c.Name == "queue-proxy" }); got.Spec.Containers[i].Image != "queue" ||
		len(got.Spec.InitContainers) > 0 {
		w.Errorf("%+v", got.Spec)
	}
}

// restart: this API server knows the rule with which the containers restart together, or refuses it.
func (w *world) restart() {
	pod := w.pod("other", declaration())
	s := image
	s.RestartTogether = true
	if err := sidecar.Inject(pod, s); err != nil {
		w.Fatal(err)
	}
	got, err := w.create(pod)
	if err != nil {
		w.Logf("this API server refuses it: %v", err)
		return
	}
	if rules := got.Spec.InitContainers[0].RestartPolicyRules; len(rules) != 1 {
		w.Errorf("this API server drops the rule, so the sidecar would rely on what does not happen: %+v", rules)
	}
}

// away: only what declares a sidecar waits for the injector, and is refused.
func (w *world) away(when string) {
	w.Helper()
	if _, err := w.create(w.pod("shop", nil)); err != nil {
		w.Errorf("%s: an ordinary pod: %v", when, err)
	}
	if _, err := w.service("shop", fmt.Sprint("plain", w.pods), nil, 8080); err != nil {
		w.Errorf("%s: an ordinary Service: %v", when, err)
	}
	_, err := w.create(w.pod("shop", declaration()))
	if err == nil || !strings.Contains(err.Error(), podsWebhook) {
		w.Errorf("%s: a pod without its sidecar: %v", when, err)
	}
}

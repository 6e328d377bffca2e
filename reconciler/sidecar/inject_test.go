// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"knative.dev/serving/pkg/apis/autoscaling"
	apicfg "knative.dev/serving/pkg/apis/config"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	"knative.dev/serving/pkg/queue/readiness"
	"knative.dev/serving/pkg/reconciler/revision/config"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/revision"
)

var injected = Settings{Image: "registry.example.com/sidecar@sha256:1"}

func declared(more map[string]string) map[string]string {
	all := map[string]string{v1alpha1.AnnotationRuntime: "sidecar", v1alpha1.AnnotationKey: "path:/carts/{key}"}
	maps.Copy(all, more)
	return all
}

func environment(c corev1.Container) map[string]string {
	out := map[string]string{}
	for _, v := range c.Env {
		if out[v.Name] = v.Value; v.ValueFrom != nil {
			out[v.Name] = v.ValueFrom.FieldRef.FieldPath
		}
	}
	return out
}

func named(t *testing.T, all []corev1.Container, name string) corev1.Container {
	t.Helper()
	for _, c := range all {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no container %s in %+v", name, all)
	return corev1.Container{}
}

// undo takes back what each sidecar in a container of its own changes: the container, and what queue-proxy knows of it.
func undo(pod, before *corev1.Pod) *corev1.Pod {
	undone := pod.DeepCopy()
	undone.Spec.InitContainers = before.Spec.InitContainers
	for i, c := range before.Spec.Containers {
		for j, v := range c.Env {
			if v.Name == portVariable || v.Name == probeVariable || v.Name == manyVariable {
				undone.Spec.Containers[i].Env[j] = v
			}
		}
	}
	return undone
}

func TestInject(t *testing.T) {
	timeout, parallel := int64(45), int64(7)
	pod := revision.Pod(t, declared(map[string]string{
		v1alpha1.AnnotationShards: "32", v1alpha1.AnnotationEntityTypes: "Cart", v1alpha1.AnnotationStrict: "true",
		v1alpha1.AnnotationHooks: "false", v1alpha1.AnnotationPatience: "2s",
		v1alpha1.AnnotationResources: "{limits: {memory: 1Gi}}",
	}), func(r *servingv1.Revision, _ *config.Config) {
		r.Spec.TimeoutSeconds, r.Spec.ContainerConcurrency = &timeout, &parallel
		r.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 3000}}
	})
	before := pod.DeepCopy()
	if err := Inject(pod, injected); err != nil {
		t.Fatal(err)
	}
	if len(pod.Spec.InitContainers) != 1 {
		t.Fatalf("%+v", pod.Spec.InitContainers)
	}
	c := pod.Spec.InitContainers[0]
	if c.Name != Container || c.Image != injected.Image || c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways ||
		c.RestartPolicyRules != nil || c.StartupProbe != nil {
		t.Errorf("%+v", c)
	}
	want := map[string]string{
		"STATEFUL_POD_IP": "status.podIP", "STATEFUL_NAMESPACE": "metadata.namespace", "K_SERVICE": "metadata.labels['serving.knative.dev/service']",
		"STATEFUL_KEY": "path:/carts/{key}", "STATEFUL_APPLICATION_PORT": "3000", "STATEFUL_SHARDS": "32", "STATEFUL_ENTITY_TYPE": "Cart",
		"STATEFUL_PATIENCE": "2s", "STATEFUL_STRICT": "true", "STATEFUL_HOOKS": "false", "STATEFUL_CONTAINER_CONCURRENCY": "7", "STATEFUL_REQUEST_TIMEOUT": "45s",
	}
	if got := environment(c); !maps.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	if memory := c.Resources.Limits.Memory().String(); memory != "1Gi" {
		t.Errorf("the limit is %s", memory)
	}
	// Only the sidecar has the token.
	if len(c.VolumeMounts) != 1 || c.VolumeMounts[0].MountPath != "/var/run/secrets/placement.knative-cdevents.dev" {
		t.Errorf("%+v", c.VolumeMounts)
	}
	for _, other := range pod.Spec.Containers {
		for _, m := range other.VolumeMounts {
			if m.Name == c.VolumeMounts[0].Name {
				t.Errorf("%s has the token", other.Name)
			}
		}
	}
	v := pod.Spec.Volumes[len(pod.Spec.Volumes)-1]
	if v.Name != c.VolumeMounts[0].Name || len(v.Projected.Sources) != 1 || v.Projected.Sources[0].ServiceAccountToken.Audience != "placement.knative-cdevents.dev" {
		t.Errorf("%+v", v)
	}
	s := c.SecurityContext
	if *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !*s.RunAsNonRoot || s.Capabilities.Drop[0] != "ALL" || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%+v", s)
	}

	user := named(t, pod.Spec.Containers, "user-container")
	if stop := user.Lifecycle.PreStop.HTTPGet; stop.Path != "/drain" || stop.Port.IntValue() != 8481 {
		t.Errorf("%+v", stop)
	}
	if got := environment(user)["PORT"]; got != "3000" {
		t.Errorf("the container listens at %s", got)
	}
	queue := environment(named(t, pod.Spec.Containers, "queue-proxy"))
	if queue["USER_PORT"] != "8480" || queue["ENABLE_MULTI_CONTAINER_PROBES"] != "true" {
		t.Errorf("%v", queue)
	}
	probes, err := readiness.DecodeProbes(queue["SERVING_READINESS_PROBE"], true)
	if err != nil || len(probes) != 2 {
		t.Fatal(probes, err)
	}
	// The first is that of Serving, the second ours.
	if probes[0].TCPSocket == nil || probes[0].TCPSocket.Port.IntValue() != 3000 {
		t.Errorf("%+v", probes[0])
	}
	if h := probes[1].HTTPGet; h == nil || h.Host != "$(SERVING_POD_IP)" || h.Port.IntValue() != 8481 || h.Path != "/readyz" || probes[1].SuccessThreshold != 1 {
		t.Errorf("%+v", probes[1])
	}

	// All else is as Serving made it.
	undone := undo(pod, before)
	undone.Spec.Volumes = before.Spec.Volumes
	for i, c := range before.Spec.Containers {
		undone.Spec.Containers[i].Lifecycle = c.Lifecycle
	}
	if !equality.Semantic.DeepEqual(undone, before) {
		t.Error(cmp.Diff(before, undone))
	}

	again := pod.DeepCopy()
	if err := Inject(again, injected); err != nil || !equality.Semantic.DeepEqual(again, pod) {
		t.Error(err, cmp.Diff(pod, again))
	}
}

// Serving's own prober, with what kubelet makes of the variable, is satisfied when both the container and the sidecar are.
func TestServingProbesTheSidecar(t *testing.T) {
	pod := revision.Pod(t, declared(nil))
	if err := Inject(pod, injected); err != nil {
		t.Fatal(err)
	}
	var ready, asked atomic.Bool
	sidecar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Store(r.URL.Path == "/readyz"); !ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer sidecar.Close()
	host, port, err := net.SplitHostPort(sidecar.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	raw := environment(named(t, pod.Spec.Containers, "queue-proxy"))["SERVING_READINESS_PROBE"]
	raw = strings.NewReplacer("$(SERVING_POD_IP)", host, "8481", port, "8080", port).Replace(raw)
	probes, err := readiness.DecodeProbes(raw, true)
	if err != nil {
		t.Fatal(err)
	}
	probes[1].PeriodSeconds, probes[1].TimeoutSeconds = 1, 1 // otherwise, it tries for ten seconds
	if readiness.NewProbe(probes).ProbeContainer() {
		t.Error("queue-proxy is ready before the sidecar")
	}
	ready.Store(true)
	if !readiness.NewProbe(probes).ProbeContainer() || !asked.Load() {
		t.Error("queue-proxy does not believe the sidecar")
	}
}

// With defaults, with probes of several containers, and with what an installation sets.
func TestInjectInto(t *testing.T) {
	pod := revision.Pod(t, declared(nil))
	if err := Inject(pod, Settings{Image: "i", ControllerURL: "https://controller.knative-cdevents.svc", Authorities: "authorities", RestartTogether: true}); err != nil {
		t.Fatal(err)
	}
	c := pod.Spec.InitContainers[0]
	env := environment(c)
	for name, want := range map[string]string{
		"APPLICATION_PORT": "8080", "SHARDS": "100", "ENTITY_TYPE": "Key", "PATIENCE": "10s", "STRICT": "false", "HOOKS": "true", "REQUEST_TIMEOUT": "300s",
		"CONTAINER_CONCURRENCY": "0", "RESTART_TOGETHER": "true", "CONTROLLER_URL": "https://controller.knative-cdevents.svc",
		"CA_FILE": "/var/run/secrets/placement.knative-cdevents.dev/ca.crt",
	} {
		if env["STATEFUL_"+name] != want {
			t.Errorf("%s is %q", name, env["STATEFUL_"+name])
		}
	}
	if r := c.RestartPolicyRules; len(r) != 1 || r[0].Action != corev1.ContainerRestartRuleActionRestartAllContainers {
		t.Errorf("%+v", r)
	}
	if v := pod.Spec.Volumes[0].Projected.Sources; len(v) != 2 || v[1].ConfigMap.Name != "authorities" {
		t.Errorf("%+v", v)
	}

	pod = revision.Pod(t, declared(map[string]string{v1alpha1.AnnotationKey: "query:$(K_SERVICE)"}), func(r *servingv1.Revision, c *config.Config) {
		c.Features.MultiContainerProbing = apicfg.Enabled
		r.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, Name: "h2c"}}
		r.Spec.Containers = append(r.Spec.Containers, corev1.Container{Name: "helper", Image: "helper", ReadinessProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ok"}},
		}})
		r.Spec.Containers[1].ReadinessProbe.HTTPGet.Port.IntVal = 9000
		r.Spec.InitContainers = []corev1.Container{{Name: "migrate", Image: "migrate"}}
	})
	if err := Inject(pod, injected); err != nil {
		t.Fatal(err)
	}
	if pod.Spec.InitContainers[0].Name != "migrate" || pod.Spec.InitContainers[1].Name != Container {
		t.Errorf("%+v", pod.Spec.InitContainers)
	}
	if got := environment(pod.Spec.InitContainers[1])["STATEFUL_KEY"]; got != "query:$$(K_SERVICE)" {
		t.Errorf("kubelet would change %s", got)
	}
	queue := environment(named(t, pod.Spec.Containers, "queue-proxy"))
	if probes, err := readiness.DecodeProbes(queue["SERVING_READINESS_PROBE"], true); err != nil || len(probes) != 3 || probes[1].HTTPGet.Path != "/ok" {
		t.Errorf("%+v, %v", probes, err)
	}
	for _, name := range []string{"user-container", "helper"} {
		if stop := named(t, pod.Spec.Containers, name).Lifecycle.PreStop.HTTPGet; stop.Path != "/drain" {
			t.Errorf("%s: %+v", name, stop)
		}
	}
}

func TestRefused(t *testing.T) {
	for says, c := range map[string]struct {
		annotations map[string]string
		revision    func(*servingv1.Revision, *config.Config)
		pod         func(*corev1.Pod)
	}{
		"annotation stateful.knative-cdevents.dev/key is missing": {annotations: map[string]string{v1alpha1.AnnotationRuntime: "sidecar"}},
		"must be one of header:NAME":                              {annotations: map[string]string{v1alpha1.AnnotationRuntime: "sidecar", v1alpha1.AnnotationKey: "X-User"}},
		`did you mean stateful.knative-cdevents.dev/patience?`:    {annotations: declared(map[string]string{v1alpha1.StatefulPrefix + "patienc": "1s"})},
		`it must be sidecar`:                                      {annotations: map[string]string{v1alpha1.AnnotationRuntime: "pekko"}},
		"container user-container: the container's port is 8481": {revision: func(r *servingv1.Revision, _ *config.Config) {
			r.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8481}}
		}},
		"Configuration cart belongs to no Knative Service": {pod: func(p *corev1.Pod) { delete(p.Labels, serving.ServiceLabelKey) }},
		"hostNetwork":                                  {pod: func(p *corev1.Pod) { p.Spec.HostNetwork = true }},
		"only pods that Knative Serving makes":         {pod: func(p *corev1.Pod) { p.Spec.Containers = p.Spec.Containers[:1] }},
		`sends requests to port "7777"`:                {pod: func(p *corev1.Pod) { setVariable(&p.Spec.Containers[1], portVariable, "7777") }},
		"has an init container named stateful-sidecar": {pod: func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: Container}} }},
		"has a volume named stateful-sidecar":          {pod: func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: volume}} }},
		"the preStop of container user-container":      {pod: func(p *corev1.Pod) { p.Spec.Containers[0].Lifecycle = nil }},
		"cannot probe the sidecar": {pod: func(p *corev1.Pod) {
			p.Spec.Containers[1].Env = slices.DeleteFunc(p.Spec.Containers[1].Env, func(v corev1.EnvVar) bool { return v.Name == manyVariable })
		}},
		"reading SERVING_READINESS_PROBE": {pod: func(p *corev1.Pod) {
			setVariable(&p.Spec.Containers[1], probeVariable, "nonsense")
			setVariable(&p.Spec.Containers[1], manyVariable, "true")
		}},
	} {
		if c.annotations == nil {
			c.annotations = declared(nil)
		}
		if c.revision == nil {
			c.revision = func(*servingv1.Revision, *config.Config) {}
		}
		pod := revision.Pod(t, c.annotations, c.revision)
		if c.pod != nil {
			c.pod(pod)
		}
		before := pod.DeepCopy()
		err := Inject(pod, injected)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "Service shop/") || !strings.Contains(err.Error(), "Revision cart-00002") {
			t.Errorf("%s: %v", says, err)
		}
		if !equality.Semantic.DeepEqual(pod, before) {
			t.Errorf("%s: the pod was changed", says)
		}
	}
}

// The annotations do not change what Serving makes, so only the injector does.
func TestServingItselfIgnoresTheDeclaration(t *testing.T) {
	with, without := revision.Pod(t, declared(nil)), revision.Pod(t, map[string]string{autoscaling.MinScaleAnnotationKey: "1"})
	a, _ := json.Marshal(with.Spec)
	b, _ := json.Marshal(without.Spec)
	if string(a) != string(b) {
		t.Error(cmp.Diff(with.Spec, without.Spec))
	}
}

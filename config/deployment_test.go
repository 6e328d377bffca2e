// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"knative.dev/pkg/injection"
)

func deployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	return deployments(t)["controller"]
}

// deployments returns all Deployments, by name.
func deployments(t *testing.T) map[string]*appsv1.Deployment {
	t.Helper()
	out := map[string]*appsv1.Deployment{}
	for _, d := range of[*appsv1.Deployment](t) {
		if out[d.Name] = d; len(d.Spec.Template.Spec.Containers) != 1 {
			t.Fatalf("%s has %d containers", d.Name, len(d.Spec.Template.Spec.Containers))
		}
	}
	if len(out) != 2 || out["controller"] == nil || out["webhook"] == nil {
		t.Fatalf("%d Deployments", len(out))
	}
	return out
}

func TestRunsWithoutPrivileges(t *testing.T) {
	t.Parallel()
	for name, d := range deployments(t) {
		checkPrivileges(t, name, d.Spec.Template.Spec)
	}
	for _, ns := range of[*corev1.Namespace](t) {
		if ns.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
			t.Error("the namespace would allow more")
		}
	}
}

// checkPrivileges also requires that each program has its own ServiceAccount.
func checkPrivileges(t *testing.T, name string, pod corev1.PodSpec) {
	t.Helper()
	c := pod.Containers[0].SecurityContext
	if c == nil || c.AllowPrivilegeEscalation == nil || *c.AllowPrivilegeEscalation ||
		c.ReadOnlyRootFilesystem == nil || !*c.ReadOnlyRootFilesystem ||
		c.RunAsNonRoot == nil || !*c.RunAsNonRoot ||
		c.Capabilities == nil || len(c.Capabilities.Drop) != 1 || c.Capabilities.Drop[0] != "ALL" || len(c.Capabilities.Add) > 0 ||
		c.SeccompProfile == nil || c.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%+v", c)
	}
	if pod.HostNetwork || pod.HostPID || pod.HostIPC {
		t.Error("it shares a namespace with its node")
	}
	for _, v := range pod.Volumes {
		if v.Secret == nil || v.Secret.Optional == nil || !*v.Secret.Optional {
			t.Errorf("%s is not an optional Secret", v.Name)
		}
	}
	if pod.ServiceAccountName != name {
		t.Errorf("%s runs as %s", name, pod.ServiceAccountName)
	}
}

func TestResources(t *testing.T) {
	t.Parallel()
	r := deployment(t).Spec.Template.Spec.Containers[0].Resources
	if r.Limits.Cpu().Cmp(resource.MustParse("1")) < 0 {
		t.Errorf("a CPU limit of %s throttles bursts", r.Limits.Cpu())
	}
	if r.Limits.Memory().IsZero() || r.Requests.Memory().IsZero() || r.Requests.Cpu().IsZero() {
		t.Errorf("%+v", r)
	}
}

func TestEnvironmentThatKnativeReads(t *testing.T) {
	t.Parallel()
	env := map[string]corev1.EnvVar{}
	for _, e := range deployment(t).Spec.Template.Spec.Containers[0].Env {
		env[e.Name] = e
	}
	for name, field := range map[string]string{"POD_NAME": "metadata.name", "SYSTEM_NAMESPACE": "metadata.namespace"} {
		if from := env[name].ValueFrom; from == nil || from.FieldRef == nil || from.FieldRef.FieldPath != field {
			t.Errorf("%s: %+v", name, env[name])
		}
	}
	shipped := map[string]bool{}
	for _, c := range of[*corev1.ConfigMap](t) {
		shipped[c.Name] = true
	}
	for _, name := range []string{"CONFIG_LOGGING_NAME", "CONFIG_OBSERVABILITY_NAME", "CONFIG_LEADERELECTION_NAME"} {
		if !shipped[env[name].Value] {
			t.Errorf("%s names %q, which is not shipped", name, env[name].Value)
		}
	}
	if _, ok := env["SYSTEM_RESOURCE_LABEL"]; ok {
		t.Error("a ConfigMap without this label would have no effect")
	}
}

func TestProbesMatchTheServer(t *testing.T) {
	t.Parallel()
	c := deployment(t).Spec.Template.Spec.Containers[0]
	ports := map[string]int32{}
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	if ports["probes"] != injection.HealthCheckDefaultPort || ports["metrics"] != 9090 {
		t.Errorf("%v", ports)
	}
	for path, probe := range map[string]*corev1.Probe{"/health": c.LivenessProbe, "/readiness": c.ReadinessProbe} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path || probe.HTTPGet.Port.String() != "probes" {
			t.Errorf("%s: %+v", path, probe)
		}
	}
	if c.StartupProbe == nil || c.StartupProbe.HTTPGet.Path != "/health" {
		t.Error("a slow start would be killed")
	}
}

// The Service exposes the port that serves verdicts, and the certificate is mounted where the
// controller reads it.
func TestVerdictsAreServed(t *testing.T) {
	t.Parallel()
	pod := deployment(t).Spec.Template.Spec
	c := pod.Containers[0]
	if !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == "gates" && p.ContainerPort == 8081 }) {
		t.Errorf("%+v", c.Ports)
	}
	secrets := map[string]string{}
	for _, v := range pod.Volumes {
		if v.Secret == nil || v.Secret.Optional == nil || !*v.Secret.Optional {
			t.Fatalf("%+v", v)
		}
		secrets[v.Name] = v.Secret.SecretName
	}
	mounted := map[string]string{}
	for _, m := range c.VolumeMounts {
		if mounted[m.MountPath] = secrets[m.Name]; !m.ReadOnly {
			t.Errorf("%+v", m)
		}
	}
	if want := map[string]string{"/etc/gates-tls": "gates-tls", "/etc/canary-prometheus": "canary-prometheus"}; !maps.Equal(mounted, want) {
		t.Errorf("%v", mounted)
	}
	for file, wants := range map[string][]string{"gateweb.go": {`":8081"`, `"/etc/gates-tls"`}, "gating.go": {`"/etc/canary-prometheus"`}} {
		wiring, err := os.ReadFile("../cmd/controller/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(wiring), want) {
				t.Errorf("the controller does not read %s", want)
			}
		}
	}
	ports := map[string]string{}
	for _, s := range of[*corev1.Service](t) {
		for _, p := range s.Spec.Ports {
			if s.Name == "controller" {
				ports[p.Name] = fmt.Sprint(p.Port, " ", p.TargetPort.String())
			}
		}
	}
	if ports["http-gates"] != "80 gates" || ports["https-gates"] != "443 gates" {
		t.Errorf("%v", ports)
	}
}

// A graceful shutdown takes five seconds, and ten more while a lease cannot be released.
func TestShutdownHasTime(t *testing.T) {
	t.Parallel()
	grace := deployment(t).Spec.Template.Spec.TerminationGracePeriodSeconds
	if grace == nil || *grace < 20 {
		t.Errorf("%v", grace)
	}
}

func TestExternalNamesResolveFirst(t *testing.T) {
	t.Parallel()
	dns := deployment(t).Spec.Template.Spec.DNSConfig
	if dns == nil || len(dns.Options) != 1 || dns.Options[0].Name != "ndots" || dns.Options[0].Value == nil || *dns.Options[0].Value != "1" {
		t.Errorf("a namespace could shadow an external host: %+v", dns)
	}
}

func TestReplicasSpreadIfTheyCan(t *testing.T) {
	t.Parallel()
	all := deployments(t)
	all[injector] = injectorOf[*appsv1.Deployment](t)[0]
	for name, d := range all {
		if *d.Spec.Replicas < 2 || len(d.Spec.Template.Spec.TopologySpreadConstraints) != 2 {
			t.Fatalf("%s: %d replicas, %+v", name, *d.Spec.Replicas, d.Spec.Template.Spec.TopologySpreadConstraints)
		}
		for i, key := range []string{corev1.LabelTopologyZone, corev1.LabelHostname} {
			c := d.Spec.Template.Spec.TopologySpreadConstraints[i]
			if c.TopologyKey != key || c.MaxSkew != 1 {
				t.Errorf("%s: %+v", name, c)
			}
			if c.WhenUnsatisfiable != corev1.ScheduleAnyway {
				t.Errorf("%s: a single-node cluster would run only one replica", name)
			}
			selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
			if err != nil || !selector.Matches(labels.Set(d.Spec.Template.Labels)) {
				t.Error("the constraint selects no pods", err)
			}
		}
	}
}

// Nothing keeps a node from being drained, or removed by the cluster autoscaler: no replica is needed.
func TestNothingHoldsANode(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"*.yaml", "optional/*/*.yaml", "optional/*/*/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(content), "safe-to-evict") {
				t.Errorf("%s: the cluster autoscaler would not remove the pod's node", file)
			}
		}
	}
}

func TestSelectorsMatchTheLabels(t *testing.T) {
	t.Parallel()
	all := deployments(t)
	for _, s := range of[*corev1.Service](t) {
		for name, d := range all {
			if found := labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(d.Spec.Template.Labels)); found != (name == s.Name) {
				t.Errorf("Service %s selects pods of %s: %v", s.Name, name, found)
			}
		}
	}
	budgets := map[string]bool{}
	for _, b := range of[*policyv1.PodDisruptionBudget](t) {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || all[b.Name] == nil || !selector.Matches(labels.Set(all[b.Name].Spec.Template.Labels)) {
			t.Errorf("the PodDisruptionBudget %s selects no pods: %v", b.Name, err)
		}
		if b.Spec.MaxUnavailable == nil || b.Spec.MaxUnavailable.IntValue() != 1 {
			t.Error("draining nodes can evict all replicas, or never evicts a single one")
		}
		budgets[b.Name] = true
	}
	if len(budgets) != len(all) {
		t.Errorf("budgets only for %v", budgets)
	}
}

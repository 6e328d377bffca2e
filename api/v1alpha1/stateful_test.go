// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestParseStateful(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		annotations map[string]string
		want        Stateful
	}{
		"akka":       {map[string]string{AnnotationRuntime: "akka"}, Stateful{RuntimeAkka, 9095, "/metrics", 8558, nil, 1000, false, "", nil, ""}},
		"pekko":      {map[string]string{AnnotationRuntime: " pekko "}, Stateful{RuntimePekko, 9095, "/metrics", 7626, nil, 1000, false, "", nil, ""}},
		"cloudstate": {map[string]string{AnnotationRuntime: "cloudstate"}, Stateful{RuntimeCloudstate, 9099, "/metrics", 8558, nil, 100, false, "", nil, ""}},
		"protoactor": {map[string]string{AnnotationRuntime: "protoactor"}, Stateful{RuntimeProtoActor, 0, "/metrics", 0, nil, 0, false, "", nil, ""}},
		"custom":     {map[string]string{AnnotationRuntime: "custom", "other": "x"}, Stateful{RuntimeCustom, 0, "/metrics", 0, nil, 0, false, "", nil, ""}},
		"sidecar": {
			map[string]string{AnnotationRuntime: "sidecar", AnnotationKey: "header:X-User"},
			Stateful{RuntimeSidecar, 8481, "/metrics", 8481, []string{"Key"}, 100, false, PlacementObserve, &Sidecar{Key: "header:X-User", Patience: 10 * time.Second, Hooks: true, Resources: defaultResources()}, ""},
		},
		"sidecar, all annotations": {
			map[string]string{
				AnnotationRuntime: "sidecar", AnnotationKey: " path:/carts/{key} ", AnnotationPatience: "2s", AnnotationStrict: "true", AnnotationHooks: "false",
				AnnotationEntityTypes: "Cart", AnnotationShards: "32", AnnotationCallsPerRequest: "1", AnnotationPlacement: "enforce",
			},
			Stateful{RuntimeSidecar, 8481, "/metrics", 8481, []string{"Cart"}, 32, true, PlacementEnforce, &Sidecar{"path:/carts/{key}", 2 * time.Second, true, false, false, defaultResources()}, ""},
		},
		"sidecar in queue-proxy": {
			map[string]string{AnnotationRuntime: "sidecar", AnnotationKey: "header:X-User", AnnotationProxy: "queue-proxy"},
			Stateful{RuntimeSidecar, 8481, "/metrics", 8481, []string{"Key"}, 100, false, PlacementObserve, &Sidecar{"header:X-User", 10 * time.Second, false, true, true, defaultResources()}, ""},
		},
		"all annotations": {
			map[string]string{
				AnnotationRuntime: "pekko", AnnotationMetricsPort: "9464", AnnotationMetricsPath: "/q/metrics", AnnotationManagementPort: "17626",
				AnnotationEntityTypes: "Order, Cart,Cart", AnnotationShards: "100",
				AnnotationCallsPerRequest: "1", AnnotationPlacement: "observe", AnnotationProxy: "cart-proxy",
			},
			Stateful{RuntimePekko, 9464, "/q/metrics", 17626, []string{"Cart", "Order"}, 100, true, PlacementObserve, nil, "cart-proxy"},
		},
	} {
		got, declared, err := ParseStateful(c.annotations)
		if err != nil || !declared || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v, %v", name, got, declared, err)
		}
	}
}

func TestNothingDeclared(t *testing.T) {
	t.Parallel()
	for _, annotations := range []map[string]string{nil, {}, {"stateful": "akka", "autoscaling.knative.dev/min-scale": "1"}} {
		if s, declared, err := ParseStateful(annotations); declared || err != nil || s.Runtime != "" {
			t.Errorf("%v: %+v, %v, %v", annotations, s, declared, err)
		}
	}
}

// An error names the annotation, its value and what is allowed.
func TestWrongDeclarations(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	for _, c := range []struct{ name, value, says string }{
		{AnnotationRuntime, "erlang", "it must be one of akka, pekko, cloudstate, protoactor, custom, sidecar"},
		{AnnotationRuntime, "", "it must be one of"},
		{AnnotationMetricsPort, "http", "it must be a port, from 1 to 65535"},
		{AnnotationMetricsPort, "0", "it must be a port"},
		{AnnotationMetricsPort, "70000", "it must be a port"},
		{AnnotationMetricsPort, "9090", "queue-proxy uses this port"},
		{AnnotationManagementPort, "8012", "queue-proxy uses this port"},
		{AnnotationMetricsPath, "metrics", "it must be a path"},
		{AnnotationCallsPerRequest, "2", "it must be 1"},
		{AnnotationMetricsPath, "//x@y/?a=b", "it must be a path"},
		{AnnotationMetricsPath, "/" + long, "it must be a path"},
		{AnnotationEntityTypes, "Cart,,Order", "it must be a list of names"},
		{AnnotationEntityTypes, "../x", "it must be a list of names"},
		{AnnotationEntityTypes, long, "it must be a list of names"},
		{AnnotationEntityTypes, "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", "17 types"},
		{AnnotationShards, "-1", "1 to 65536"},
		{AnnotationShards, "1000000", "1 to 65536"},
		{AnnotationPlacement, "yes", "it must be enforce or observe"},
		{AnnotationPlacement, "enforce", "entity-types too"},
		{StatefulPrefix + "metric-port", "1", "this annotation does not exist; did you mean stateful.knative-cdevents.dev/metrics-port?"},
		{StatefulPrefix + "placment", "enforce", "did you mean stateful.knative-cdevents.dev/placement?"},
		{StatefulPrefix + long, "1", "this annotation does not exist"},
		{AnnotationKey, "header:X-User", "only runtime sidecar has this annotation"},
		{AnnotationPatience, "1s", "only runtime sidecar has this annotation"},
		{AnnotationStrict, "true", "only runtime sidecar has this annotation"},
		{AnnotationHooks, "true", "only runtime sidecar has this annotation"},
		{AnnotationProxy, "queue-proxy", "only runtime sidecar can be a part of queue-proxy"},
		{AnnotationProxy, "a_b", "it must be the name of a sidecar in ConfigMap config-sidecars"},
	} {
		annotations := map[string]string{AnnotationRuntime: "akka"}
		annotations[c.name] = c.value
		_, declared, err := ParseStateful(annotations)
		if !declared || err == nil || !strings.Contains(err.Error(), c.name) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s=%q: %v, %v", c.name, c.value, declared, err)
		}
		if err != nil && len(err.Error())-len(c.name) > 300 {
			t.Errorf("%s: the message has %d bytes", c.name, len(err.Error()))
		}
	}
	_, _, err := ParseStateful(map[string]string{AnnotationShards: "x"})
	if err == nil || !strings.Contains(err.Error(), "runtime is missing") || !strings.Contains(err.Error(), AnnotationShards) {
		t.Errorf("without a runtime: %v", err)
	}
}

// A runtime without defaults gets a plan if the template says what the plan needs.
func TestPlacementOfOtherRuntimes(t *testing.T) {
	t.Parallel()
	for _, r := range []Runtime{RuntimeProtoActor, RuntimeCustom} {
		all := map[string]string{
			AnnotationRuntime: string(r), AnnotationManagementPort: "9099", AnnotationEntityTypes: "Cart", AnnotationShards: "100", AnnotationPlacement: "enforce",
		}
		got, _, err := ParseStateful(all)
		want := Stateful{r, 0, "/metrics", 9099, []string{"Cart"}, 100, false, PlacementEnforce, nil, ""}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", r, got, err)
		}
		for _, missing := range []string{AnnotationManagementPort, AnnotationEntityTypes, AnnotationShards} {
			some := maps.Clone(all)
			delete(some, missing)
			_, _, err := ParseStateful(some)
			if err == nil || !strings.Contains(err.Error(), AnnotationPlacement) || !strings.Contains(err.Error(), "set "+missing+" too") {
				t.Errorf("%s without %s: %v", r, missing, err)
			}
		}
		delete(all, AnnotationPlacement)
		if got, _, err := ParseStateful(all); err != nil || got.ManagementPort != 9099 || got.Placement != "" {
			t.Errorf("%s without placement: %+v, %v", r, got, err)
		}
	}
	_, _, err := ParseStateful(map[string]string{AnnotationRuntime: "cloudstate", AnnotationEntityTypes: "Cart", AnnotationPlacement: "enforce"})
	if err == nil || !strings.Contains(err.Error(), "cannot follow a plan") {
		t.Errorf("cloudstate: %v", err)
	}
}

// The key is read as the sidecar reads it.
func TestWrongSidecars(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, says string }{
		{AnnotationKey, "X-User", "header:NAME, cookie:NAME, query:NAME, path:NUMBER"},
		{AnnotationKey, "", "header:NAME"},
		{AnnotationKey, "path:/carts", "it must begin with / and have {key} once"},
		{AnnotationKey, "header:Stateful-Key", "the sidecar sets itself"},
		{AnnotationKey, "event:Subject", "event:ATTRIBUTE"},
		{AnnotationKey, "header:" + strings.Repeat("x", 300), "at most 256"},
		{AnnotationPatience, "0s", "it must be a duration from 1ms to 10m0s"},
		{AnnotationPatience, "long", "it must be a duration"},
		{AnnotationStrict, "yes", "it must be true or false"},
		{AnnotationHooks, "", "it must be true or false"},
		{AnnotationResources, "512Mi", "such as {limits: {memory: 1Gi}}"},
		{AnnotationResources, "{limit: {memory: 1Gi}}", `unknown field "limit"`},
		{AnnotationResources, "{limits: {memory: much}}", "quantities must match"},
		{AnnotationResources, "{limits: {memory: 1Gi, memory: 2Gi}}", "already set"},
		{AnnotationResources, "{limits: {nvidia.com/gpu: 1}}", "limits.nvidia.com/gpu does not exist"},
		{AnnotationResources, "{requests: {cpu: 0}}", "requests.cpu is 0; it must be more than 0"},
		{AnnotationResources, "{requests: {memory: 1Gi}}", "requests.memory is 1Gi, which is more than the limit 512Mi"},
		{AnnotationResources, "{requests: {cpu: 2}, limits: {cpu: 1}}", "requests.cpu is 2, which is more than the limit 1"},
		{AnnotationResources, "# " + strings.Repeat("x", 1100), "more than 1024 bytes"},
		{AnnotationEntityTypes, "Cart,Order", "at most 1"},
		{AnnotationManagementPort, "8558", "always uses port 8481"},
		{AnnotationMetricsPort, "9464", "always uses port 8481"},
		{AnnotationMetricsPath, "/q", "always uses port 8481"},
		{AnnotationPlacement, "", "it must be enforce or observe"},
		{StatefulPrefix + "kee", "header:X", "did you mean stateful.knative-cdevents.dev/key?"},
	} {
		annotations := map[string]string{AnnotationRuntime: "sidecar", AnnotationKey: "header:X-User"}
		annotations[c.name] = c.value
		_, declared, err := ParseStateful(annotations)
		if !declared || err == nil || !strings.Contains(err.Error(), c.name) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s=%q: %v, %v", c.name, c.value, declared, err)
		}
	}
	if _, _, err := ParseStateful(map[string]string{AnnotationRuntime: "sidecar"}); err == nil || !strings.Contains(err.Error(), AnnotationKey+" is missing") {
		t.Errorf("without a key: %v", err)
	}
}

func TestResourcesOfTheSidecar(t *testing.T) {
	t.Parallel()
	list := func(cpu, memory string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for name, v := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
			if v != "" {
				out[name] = resource.MustParse(v)
			}
		}
		return out
	}
	for value, want := range map[string]corev1.ResourceRequirements{
		"":                                    {Requests: list("25m", "32Mi"), Limits: list("", "512Mi")},
		"{limits: {memory: 1Gi}}":             {Requests: list("25m", "32Mi"), Limits: list("", "1Gi")},
		"{limits: {memory: 16Mi}}":            {Requests: list("25m", "16Mi"), Limits: list("", "16Mi")},
		"{limits: {cpu: 10m}}":                {Requests: list("10m", "32Mi"), Limits: list("10m", "512Mi")},
		"requests:\n  cpu: 1\n  memory: 64Mi": {Requests: list("1", "64Mi"), Limits: list("", "512Mi")},
	} {
		s, _, err := ParseStateful(map[string]string{
			AnnotationRuntime: "sidecar", AnnotationKey: "header:X-User", AnnotationResources: value,
		})
		if err != nil || !equality.Semantic.DeepEqual(s.Sidecar.Resources, want) {
			t.Errorf("%q: %+v, %v", value, s.Sidecar, err)
		}
	}
	_, _, err := ParseStateful(map[string]string{
		AnnotationRuntime: "sidecar", AnnotationKey: "header:X-User", AnnotationProxy: "queue-proxy", AnnotationResources: "{limits: {memory: 1Gi}}",
	})
	if err == nil || !strings.Contains(err.Error(), "queue.sidecar.serving.knative.dev/memory-resource-limit") {
		t.Errorf("in queue-proxy: %v", err)
	}
}

// What one declaration does to its list does not reach the next one.
func TestDefaultsAreNotShared(t *testing.T) {
	t.Parallel()
	declared := map[string]string{AnnotationRuntime: "sidecar", AnnotationKey: "header:X-User"}
	first, _, _ := ParseStateful(declared)
	first.EntityTypes[0] = "changed"
	if second, _, _ := ParseStateful(declared); second.EntityTypes[0] != "Key" {
		t.Error(second.EntityTypes)
	}
}

func TestApplicationPort(t *testing.T) {
	t.Parallel()
	for port, says := range map[int]string{
		8080: "", 3000: "", 8483: "", 0: "from 1 to 65535", 70000: "from 1 to 65535",
		8012: "queue-proxy uses", 8013: "queue-proxy uses", 8022: "queue-proxy uses", 8112: "queue-proxy uses", 9090: "queue-proxy uses", 9091: "queue-proxy uses",
		8480: "the sidecar uses", 8481: "the sidecar uses", 8482: "the sidecar uses",
	} {
		err := CheckApplicationPort(port)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%d: %v", port, err)
		}
	}
}

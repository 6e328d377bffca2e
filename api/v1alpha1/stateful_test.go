// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"maps"
	"reflect"
	"strings"
	"testing"
)

func TestParseStateful(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		annotations map[string]string
		want        Stateful
	}{
		"akka":       {map[string]string{AnnotationRuntime: "akka"}, Stateful{RuntimeAkka, 9095, "/metrics", 8558, nil, 1000, false, ""}},
		"pekko":      {map[string]string{AnnotationRuntime: " pekko "}, Stateful{RuntimePekko, 9095, "/metrics", 7626, nil, 1000, false, ""}},
		"cloudstate": {map[string]string{AnnotationRuntime: "cloudstate"}, Stateful{RuntimeCloudstate, 9099, "/metrics", 8558, nil, 100, false, ""}},
		"protoactor": {map[string]string{AnnotationRuntime: "protoactor"}, Stateful{RuntimeProtoActor, 0, "/metrics", 0, nil, 0, false, ""}},
		"custom":     {map[string]string{AnnotationRuntime: "custom", "other": "x"}, Stateful{RuntimeCustom, 0, "/metrics", 0, nil, 0, false, ""}},
		"all annotations": {
			map[string]string{
				AnnotationRuntime: "pekko", AnnotationMetricsPort: "9464", AnnotationMetricsPath: "/q/metrics", AnnotationManagementPort: "17626",
				AnnotationEntityTypes: "Order, Cart,Cart", AnnotationShards: "100",
				AnnotationCallsPerRequest: "1", AnnotationPlacement: "observe",
			},
			Stateful{RuntimePekko, 9464, "/q/metrics", 17626, []string{"Cart", "Order"}, 100, true, PlacementObserve},
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
		{AnnotationRuntime, "erlang", "it must be one of akka, pekko, cloudstate, protoactor, custom"},
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
		{StatefulPrefix + "metric-port", "1", "this annotation does not exist"},
	} {
		annotations := map[string]string{AnnotationRuntime: "akka"}
		annotations[c.name] = c.value
		_, declared, err := ParseStateful(annotations)
		if !declared || err == nil || !strings.Contains(err.Error(), c.name) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s=%q: %v, %v", c.name, c.value, declared, err)
		}
		if err != nil && len(err.Error()) > 300 {
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
		want := Stateful{r, 0, "/metrics", 9099, []string{"Cart"}, 100, false, PlacementEnforce}
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

// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/settings"
)

// definition is what a provider of Crossplane publishes of a kind.
type definition struct {
	// Source is the repository and its tag. The definition is in its folder package/crds.
	Source               string
	Group, Version, Kind string
	Namespaced           bool
	// Strings are the fields that have the type string, as far as an environment could be described by them, and
	// spec.managementPolicies if there is such a list.
	Strings []string
}

func (d definition) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: d.Group, Kind: d.Kind}
}

func published(t *testing.T) []definition {
	t.Helper()
	raw, err := os.ReadFile("testdata/published/providers.json")
	if err != nil {
		t.Fatal(err)
	}
	var out []definition
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// object returns an object in which each string is the name of its field.
func (d definition) object(t *testing.T, set map[string]any) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: d.Group, Version: d.Version, Kind: d.Kind})
	u.SetName("prod")
	for _, field := range d.Strings {
		v := any(field)
		if given, ok := set[field]; ok {
			v = given
		} else if field == managementPolicies || field == deletionPolicy {
			continue
		}
		if err := unstructured.SetNestedField(u.Object, v, strings.Split(field, ".")...); err != nil {
			t.Fatal(err)
		}
	}
	return u
}

const (
	managementPolicies = "spec.managementPolicies"
	deletionPolicy     = "spec.deletionPolicy"
)

// endpoints are what the clouds return as the address of a cluster: EKS a URL, GKE an address, AKS a name.
var endpoints = map[string]any{
	"status.atProvider.endpoint": "203.0.113.7",
	"status.atProvider.fqdn":     "prod-1a2b3c4d.hcp.westeurope.azmk8s.io",
}

func TestPublishedKindsAreDescribed(t *testing.T) {
	t.Parallel()
	shipped := settings.Default("").EnvironmentKinds
	described := map[schema.GroupKind]bool{{Group: "cluster.x-k8s.io", Kind: "Cluster"}: true}
	for _, d := range published(t) {
		described[d.groupKind()] = true
		project := func(set map[string]any) lifecycle.EnvironmentSnapshot {
			return projector{}.project(d.object(t, set)).Facts
		}
		e := project(endpoints).Environment
		if e.Provider != lifecycle.ProviderCrossplane {
			t.Errorf("%s: the provider is %q", d.groupKind(), e.Provider)
		}
		if !strings.HasPrefix(e.Version, "status.atProvider.") || !strings.Contains(strings.ToLower(e.Version), "version") {
			t.Errorf("%s %s: the version is that of %q, want what runs", d.groupKind(), d.Version, e.Version)
		}
		if e.Region != "spec.forProvider.region" && e.Region != "spec.forProvider.location" {
			t.Errorf("%s %s: the region is that of %q", d.groupKind(), d.Version, e.Region)
		}
		if e.URL != "https://203.0.113.7" && e.URL != "https://prod-1a2b3c4d.hcp.westeurope.azmk8s.io" {
			t.Errorf("%s %s: the URL is %q", d.groupKind(), d.Version, e.URL)
		}
		// What is asked for names the version until the provider says which one runs.
		asked := d
		asked.Strings = slices.DeleteFunc(slices.Clone(d.Strings),
			func(f string) bool { return strings.HasPrefix(f, "status.") })
		if v := (projector{}).project(asked.object(t, nil)).Facts.Environment.Version; !strings.HasPrefix(v,
			"spec.forProvider.") {
			t.Errorf("%s %s: the version is that of %q before there is a status", d.groupKind(), d.Version, v)
		}
		if slices.Contains(d.Strings, managementPolicies) {
			if f := project(map[string]any{managementPolicies: []any{"Observe"}}); !f.Kept || !f.Observed {
				t.Errorf("%s %s: Observe counts as %+v", d.groupKind(), d.Version, f)
			}
			if f := project(map[string]any{managementPolicies: []any{"*"}}); f.Kept || f.Observed {
				t.Errorf("%s %s: the default policies count as %+v", d.groupKind(), d.Version, f)
			}
		}
		if slices.Contains(d.Strings, deletionPolicy) {
			if f := project(map[string]any{deletionPolicy: "Orphan"}); !f.Kept {
				t.Errorf("%s %s: Orphan counts as %+v", d.groupKind(), d.Version, f)
			}
		}
	}
	for _, of := range shipped {
		if !described[of] {
			t.Errorf("%s is shipped as a kind of environments, but no definition of it was looked at", of)
		}
		delete(described, of)
	}
	for of := range described {
		t.Errorf("%s was looked at, but is not among the kinds that are shipped", of)
	}
}

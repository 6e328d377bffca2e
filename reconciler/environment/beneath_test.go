// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// nested returns a composite of a composite of a composite of the cluster, and of a claim to a composite of the role.
func nested(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	outer := fromYAML(t, compositeOfClaimed)
	platform := func(kind, name string) map[string]any {
		return map[string]any{"apiVersion": "aws.platform.example.com/v1", "kind": kind, "name": name}
	}
	inner := platform("Access", "access")
	inner["namespace"] = "fleet"
	if err := unstructured.SetNestedSlice(outer.Object, []any{platform("XInner", "inner"), inner}, "spec",
		"resourceRefs"); err != nil {
		t.Fatal(err)
	}
	of := func(kind, name, what string) *unstructured.Unstructured {
		return fromYAML(t, "apiVersion: aws.platform.example.com/v1\nkind: "+kind+"\nmetadata: {name: "+name+"}\nspec: {"+what+"}")
	}
	access := of("Access", "access", "resourceRef: {apiVersion: aws.platform.example.com/v1, kind: XAccess, name: access-1}")
	access.SetNamespace("fleet")
	return append(managed(t, "", ""), outer, access,
		of("XInner", "inner", "resourceRefs: [{apiVersion: aws.platform.example.com/v1, kind: XInnermost, name: innermost}]"),
		of("XInnermost", "innermost", "resourceRefs: [{apiVersion: eks.aws.upbound.io/v1beta1, kind: Cluster, name: prod-x1-eks}]"),
		of("XAccess", "access-1", "claimRef: {apiVersion: aws.platform.example.com/v1, kind: Access, namespace: fleet, name: access}, "+
			"resourceRefs: [{apiVersion: iam.aws.upbound.io/v1beta1, kind: Role, name: prod-x1-role}]"),
	)
}

// The end of an environment waits for what lies beneath, however deep it is, and whether composites or claims lead there.
func TestEndWaitsForWhatLiesDeep(t *testing.T) {
	t.Parallel()
	kinds := schema.GroupKind{Group: "aws.platform.example.com", Kind: "TeamCluster"}
	for name, last := range map[string]string{
		"a managed resource of a composite of a composite of a composite": "Cluster",
		"a composite of a composite of a composite":                       "XInnermost",
		"a managed resource of the composite of a claim of a composite":   "Role",
		"the composite of a claim of a composite":                         "XAccess",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := nested(t)
			a := newAPI(all...)
			s := a.story(t, kinds, Target{Composite: true})
			s.see(fromYAML(t, claimed))
			a.empty()
			for _, o := range all {
				if o.GetKind() == last {
					a.put(o)
				}
			}
			if r := s.take(s.m.End(t.Context(), s.now)); !r.Wait {
				t.Fatalf("%s still exists, and it told %s", last, s.names)
			}
			a.empty()
			s.end()
			if e := s.last(); e.Type != lifecycle.EnvironmentDeleted || e.Environment.Beneath != "" {
				t.Errorf("told %s, beneath %q", s.names, e.Environment.BeneathReason)
			}
		})
	}
}

// A composite that has not composed anything yet is read again. One that claims another's composite leads nowhere.
func TestWhatIsBeneathIsFoundLater(t *testing.T) {
	t.Parallel()
	all := nested(t)
	at := func(kind string) *unstructured.Unstructured {
		return all[slices.IndexFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind })]
	}
	a := newAPI(all...)
	bare := at("XInner").DeepCopy()
	bare.Object["spec"] = map[string]any{"compositionRef": map[string]any{"name": "inner"}}
	a.put(bare)
	foreign := at("XAccess").DeepCopy()
	if err := unstructured.SetNestedField(foreign.Object, "another", "spec", "claimRef", "name"); err != nil {
		t.Fatal(err)
	}
	a.put(foreign)
	s := a.story(t, schema.GroupKind{Group: "aws.platform.example.com", Kind: "TeamCluster"}, Target{Composite: true})
	object := fromYAML(t, claimed)
	s.see(object)
	remembers := func(kind string) bool {
		m, ok := s.m.(memory)
		return ok && slices.ContainsFunc(m.Resources, func(r lifecycle.ResourceRef) bool { return r.Kind == kind })
	}
	if remembers("Cluster") || remembers("Role") {
		t.Fatal("it remembers what nothing named")
	}
	a.put(at("XInner"))
	object.SetResourceVersion("6")
	s.see(object)
	if !remembers("XInnermost") || !remembers("Cluster") || remembers("Role") {
		t.Errorf("%+v", s.m)
	}
	object.SetResourceVersion("7")
	s.see(object)
	if !remembers("Cluster") {
		t.Error("it forgot what it had found")
	}
}

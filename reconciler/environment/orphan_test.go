// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

const claimed = `
apiVersion: aws.platform.example.com/v1
kind: TeamCluster
metadata: {name: prod, namespace: fleet, uid: u1, generation: 1, resourceVersion: "5", creationTimestamp: "2026-05-04T09:59:00Z"}
spec: {region: eu-north-1, resourceRef: {apiVersion: aws.platform.example.com/v1, kind: XTeamCluster, name: prod-x1}}
status:
  conditions:
  - {type: Synced, status: "True", reason: ReconcileSuccess, lastTransitionTime: "2026-05-04T10:00:00Z"}
  - {type: Ready, status: "True", reason: Available, lastTransitionTime: "2026-05-04T10:00:00Z"}
`

const compositeOfClaimed = `
apiVersion: aws.platform.example.com/v1
kind: XTeamCluster
metadata: {name: prod-x1, resourceVersion: "1"}
spec:
  claimRef: {apiVersion: aws.platform.example.com/v1, kind: TeamCluster, namespace: fleet, name: prod}
  resourceRefs:
  - {apiVersion: eks.aws.upbound.io/v1beta1, kind: Cluster, name: prod-x1-eks}
  - {apiVersion: iam.aws.upbound.io/v1beta1, kind: Role, name: prod-x1-role}
  - {apiVersion: aws.platform.example.com/v1, kind: Note, name: prod-x1-note}
`

// managed returns the cluster and the role that the composite is made of, with what their spec says of their end.
func managed(t *testing.T, cluster, role string) []*unstructured.Unstructured {
	t.Helper()
	return []*unstructured.Unstructured{
		fromYAML(t, "apiVersion: eks.aws.upbound.io/v1beta1\nkind: Cluster\nmetadata: {name: prod-x1-eks}\nspec: {"+cluster+"forProvider: {region: eu-north-1}}"),
		fromYAML(t, "apiVersion: iam.aws.upbound.io/v1beta1\nkind: Role\nmetadata: {name: prod-x1-role}\nspec: {"+role+"forProvider: {path: /}}"),
		fromYAML(t, "apiVersion: aws.platform.example.com/v1\nkind: Note\nmetadata: {name: prod-x1-note}\nspec: {text: hello}"),
	}
}

// To move from claims to namespaced composites, users orphan what a claim is composed of, and delete the claim
// (crossplane/docs#1017). The cluster lives on.
func TestOrphanedClusterIsNotDeleted(t *testing.T) {
	t.Parallel()
	const orphan, without, observe, rid = "deletionPolicy: Orphan, ", "managementPolicies: [Observe, Create, Update], ",
		"managementPolicies: [Observe], ", ""
	for name, c := range map[string]struct {
		cluster, role string
		deleted       bool
		reason        string // why it is not known, empty if it is
	}{
		"all is deleted":                     {rid, rid, true, ""},
		"all is kept by deletion policy":     {orphan, orphan, false, ""},
		"all is kept by management policies": {without, without, false, ""},
		"the cluster is kept": {
			orphan, rid, true,
			"1 of its resources were to be kept, such as Cluster prod-x1-eks",
		},
		"the role is kept": {rid, without, true, "such as Role prod-x1-role"},
		"the cluster is kept, and the role belongs to others": {orphan, observe, false, ""},
		"the role belongs to others":                          {rid, observe, true, ""},
	} {
		for _, learnt := range []string{"at first", "when the claim is being deleted", "when the claim is gone"} {
			for _, form := range []string{"claim", "namespaced composite"} {
				t.Run(name+", learnt "+learnt+", "+form, func(t *testing.T) {
					t.Parallel()
					is := func(at string) []*unstructured.Unstructured {
						cluster, role := c.cluster, c.role
						if at != learnt {
							cluster, role = rid, rid // as they were before the migration
						}
						return managed(t, cluster, role)
					}
					a := newAPI(append(is("at first"), fromYAML(t, compositeOfClaimed))...)
					object := fromYAML(t, claimed)
					if form == "namespaced composite" {
						object = composed(t)
						a = newAPI(inNamespace(is("at first"))...)
					}
					s := a.story(t, schema.GroupKind{Group: "aws.platform.example.com", Kind: "TeamCluster"}, Target{Composite: true})
					s.see(object)
					put := func(at string) {
						if at != learnt {
							return
						}
						for _, o := range is(at) {
							if form == "namespaced composite" {
								o.SetNamespace("fleet")
							}
							a.put(o)
						}
					}
					put("when the claim is being deleted")
					if learnt != "when the claim is gone" {
						going := object.DeepCopy()
						going.SetDeletionTimestamp(&metav1.Time{Time: s.now})
						going.SetResourceVersion("6")
						s.see(going)
						a.empty()
					} else {
						put("when the claim is gone")
						m, ok := s.m.(memory)
						if !ok {
							t.Fatalf("%T", s.m)
						}
						s.take(m.End(t.Context(), s.now)) // what it is made of still exists
						a.empty()
					}
					s.end()
					want := "CrossplaneClusterCreated EnvironmentCreated"
					if c.deleted {
						want += " EnvironmentDeleted"
					}
					if got := strings.Join(s.names, " "); got != want {
						t.Fatalf("told %s, want %s", got, want)
					}
					if e := s.last().Environment; c.deleted &&
						((e.Beneath == lifecycle.BeneathUnknown) != (c.reason != "") || !strings.Contains(e.BeneathReason, c.reason)) {
						t.Errorf("beneath %q, %q", e.Beneath, e.BeneathReason)
					}
				})
			}
		}
	}
}

// composed is a composite of Crossplane 2, which needs no claim.
func composed(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	refs := fromYAML(t, compositeOfClaimed).Object["spec"]
	u := fromYAML(t, claimed)
	u.Object["spec"] = map[string]any{"region": "eu-north-1", "crossplane": refs}
	return u
}

func inNamespace(all []*unstructured.Unstructured) []*unstructured.Unstructured {
	for _, o := range all {
		o.SetNamespace("fleet")
	}
	return all
}

// What a composite consists of is not known if nobody may read the composite.
func TestUnreadableCompositeIsNotDeletedForCertain(t *testing.T) {
	t.Parallel()
	a := newAPI(fromYAML(t, compositeOfClaimed))
	a.forbid("XTeamCluster")
	s := a.story(t, schema.GroupKind{Group: "aws.platform.example.com", Kind: "TeamCluster"}, Target{Composite: true})
	s.see(fromYAML(t, claimed))
	s.end()
	if e := s.last().Environment; s.last().Type != lifecycle.EnvironmentDeleted ||
		e.Beneath != lifecycle.BeneathUnknown || !strings.Contains(e.BeneathReason, "may not read XTeamCluster prod-x1") {
		t.Errorf("%+v", e)
	}
}

// A composite may be made of others. What they are made of counts, too, however deep it is.
func TestOrphansInCompositesOfComposites(t *testing.T) {
	t.Parallel()
	const orphan, rid = "deletionPolicy: Orphan, ", ""
	for name, c := range map[string]struct {
		cluster, role string
		deleted       bool
		reason        string
	}{
		"all is deleted":      {rid, rid, true, ""},
		"all is kept":         {orphan, orphan, false, ""},
		"the role is kept":    {rid, orphan, true, "such as Role prod-x1-role"},
		"the cluster is kept": {orphan, rid, true, "such as XInner inner"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outer := fromYAML(t, compositeOfClaimed)
			ref := func(kind, name string) any {
				return map[string]any{"apiVersion": "aws.platform.example.com/v1", "kind": kind, "name": name}
			}
			role := map[string]any{"apiVersion": "iam.aws.upbound.io/v1beta1", "kind": "Role", "name": "prod-x1-role"}
			if err := unstructured.SetNestedSlice(outer.Object, []any{ref("XInner", "inner"), role}, "spec",
				"resourceRefs"); err != nil {
				t.Fatal(err)
			}
			inner := fromYAML(t, "apiVersion: aws.platform.example.com/v1\nkind: XInner\nmetadata: {name: inner}\nspec: {resourceRefs: [{apiVersion: aws.platform.example.com/v1, kind: XInnermost, name: innermost}]}")
			innermost := fromYAML(t, "apiVersion: aws.platform.example.com/v1\nkind: XInnermost\nmetadata: {name: innermost}\nspec: {resourceRefs: [{apiVersion: eks.aws.upbound.io/v1beta1, kind: Cluster, name: prod-x1-eks}]}")
			a := newAPI(append(managed(t, c.cluster, c.role), outer, inner, innermost)...)
			s := a.story(t, schema.GroupKind{Group: "aws.platform.example.com", Kind: "TeamCluster"}, Target{Composite: true})
			s.see(fromYAML(t, claimed))
			a.empty()
			s.end()
			if deleted := s.last().Type == lifecycle.EnvironmentDeleted; deleted != c.deleted {
				t.Fatalf("told %s", s.names)
			}
			if e := s.last().Environment; c.deleted && !strings.Contains(e.BeneathReason, c.reason) ||
				(e.BeneathReason == "") != (c.reason == "") {
				t.Errorf("beneath %q, %q", e.Beneath, e.BeneathReason)
			}
		})
	}
}

// A composite that names itself, or far too much, is not read for ever.
func TestCompositesThatNameThemselves(t *testing.T) {
	t.Parallel()
	outer := fromYAML(t, compositeOfClaimed)
	self := map[string]any{"apiVersion": "aws.platform.example.com/v1", "kind": "XTeamCluster", "name": "prod-x1"}
	if err := unstructured.SetNestedSlice(outer.Object, []any{self, self}, "spec", "resourceRefs"); err != nil {
		t.Fatal(err)
	}
	a := newAPI(outer)
	s := a.story(t, schema.GroupKind{Group: "aws.platform.example.com", Kind: "TeamCluster"}, Target{Composite: true})
	s.see(fromYAML(t, claimed))
	a.empty()
	s.end()
	if s.last().Type != lifecycle.EnvironmentDeleted {
		t.Errorf("told %s", s.names)
	}
}

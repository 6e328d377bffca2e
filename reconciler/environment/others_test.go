// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Whoever writes a claim, a composite or a Cluster in a namespace chooses what it refers to, and must not find out
// from its events what others have.
func TestObjectsOfANamespaceTellNothingOfOthers(t *testing.T) {
	t.Parallel()
	other := fromYAML(t, compositeOfClaimed) // bound to claim fleet/prod, and it still exists
	claim := fromYAML(t, claimed)
	claim.SetNamespace("mallory")
	unbound := fromYAML(t, compositeOfClaimed)
	unstructured.RemoveNestedField(unbound.Object, "spec", "claimRef")
	namespaced := composed(t)
	refs := map[string]any{"apiVersion": "aws.platform.example.com/v1", "kind": "XTeamCluster", "name": "prod-x1"}
	if err := unstructured.SetNestedSlice(namespaced.Object, []any{refs}, "spec", "crossplane",
		"resourceRefs"); err != nil {
		t.Fatal(err)
	}
	of := schema.GroupKind{Group: "aws.platform.example.com", Kind: "TeamCluster"}
	for name, c := range map[string]struct{ object, other *unstructured.Unstructured }{
		"the composite of another claim":                    {claim, other},
		"a composite without a claim":                       {claim, unbound},
		"a cluster-scoped object in a namespaced composite": {namespaced, other},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newAPI(c.other).story(t, of, Target{Composite: true})
			s.see(c.object)
			began := s.now
			s.end()
			if e := s.last().Environment; s.last().Type != lifecycle.EnvironmentDeleted || e.Beneath != "" ||
				e.BeneathReason != "" || s.now != began {
				t.Errorf("after %s, it tells %+v", s.now.Sub(began), e)
			}
		})
	}
}

func TestVersionOfAClusterScopedObjectIsNotRead(t *testing.T) {
	t.Parallel()
	other := fromYAML(t, "apiVersion: aws.platform.example.com/v1\nkind: XTeamCluster\nmetadata: {name: secret}\nspec: {version: v1.2.3-internal}")
	cluster := fromYAML(t, strings.NewReplacer("HOST", "prod.example.com", "PORT", "443",
		"{apiGroup: controlplane.cluster.x-k8s.io, kind: AWSManagedControlPlane, name: prod}",
		"{apiVersion: aws.platform.example.com/v1, kind: XTeamCluster, name: secret}").Replace(clusterAt))
	s := newAPI(other).story(t, clusterKind, Target{})
	s.see(cluster)
	if e := s.last().Environment; e.Version != "" {
		t.Errorf("it tells the version %s", e.Version)
	}
}

// SPDX-License-Identifier: Apache-2.0

package service

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"knative.dev/serving/pkg/apis/serving"
)

// Objects belong to a Service by their name or by the index, and never by a name alone.
func TestPartsOfAService(t *testing.T) {
	t.Parallel()
	k := &Kind{}
	caches := make([]cache.Indexer, 4)
	for i := range caches {
		caches[i] = cache.NewIndexer(cache.MetaNamespaceKeyFunc, Indexers())
	}
	k.Use(caches, nil)
	stranger := newRevision() // a Revision of another Service, with the name of this one
	stranger.Name = "cart"
	stranger.Labels = maps.Clone(stranger.Labels)
	stranger.Labels[serving.ServiceLabelKey] = "till"
	namesake := newRevision() // and one of this Service
	namesake.Name, namesake.Namespace = "till", "shop"
	namesake.Labels = maps.Clone(namesake.Labels)
	namesake.Labels[serving.ServiceLabelKey] = "till"
	for i, objs := range [][]any{{newService()}, {newRoute()}, {newRevision(), stranger, namesake}, {newDomain()}} {
		for _, obj := range objs {
			s, err := project.transform(obj)
			if err == nil {
				err = caches[i].Add(s)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, want := range map[string][]string{
		"cart":             {"domain/cart.example.com", "revision/cart-00002", partRoute, partService},
		"till":             {"revision/cart", "revision/till"},
		"cart-00002":       nil,
		"cart.example.com": nil,
	} {
		key := types.NamespacedName{Namespace: "shop", Name: name}
		got := slices.Sorted(maps.Keys(k.Cached(key)))
		if !slices.Equal(got, want) || k.has(key) != (want != nil) || slices.Contains(k.Keys(), key) != (want != nil) {
			t.Errorf("%s has %q, want %q; it exists: %v", name, got, want, k.has(key))
		}
	}
}

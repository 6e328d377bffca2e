// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
)

func labelledNamespace(name string, labels map[string]string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
	}
}

// cached is an informer that does not run.
type cached struct {
	cache.SharedIndexInformer
	store cache.Store
}

func (c cached) GetStore() cache.Store { return c.store }

func of(store cache.Store, client metadata.Interface) *Informer {
	return &Informer{SharedIndexInformer: cached{store: store}, client: client.Resource(resource)}
}

// The informer of Services may be ahead of the one of namespaces.
func TestUncachedNamespaceIsFetched(t *testing.T) {
	t.Parallel()
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := fake.NewSimpleMetadataClient(scheme, labelledNamespace("new", map[string]string{"stage": "prod"}))
	asked := 0
	client.PrependReactor("get", "namespaces", func(a clienttesting.Action) (bool, runtime.Object, error) {
		asked++
		get, ok := a.(clienttesting.GetAction)
		if ok && get.GetName() == "silent" {
			return true, nil, errors.New("no response")
		}
		return false, nil, nil
	})
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	if err := store.Add(labelledNamespace("old", map[string]string{"stage": "dev"})); err != nil {
		t.Fatal(err)
	}
	n := of(store, client)
	for name, want := range map[string]struct {
		stage         string
		exists, fails bool
		asked         int
	}{
		"old": {"dev", true, false, 0}, "new": {"prod", true, false, 1}, "none": {"", false, false, 1},
		"silent": {"", false, true, 1},
	} {
		asked = 0
		labels, exists, err := n.Labels(context.Background(), name)
		if labels["stage"] != want.stage || exists != want.exists || (err != nil) != want.fails || asked != want.asked {
			t.Errorf("%s: %v, %v, %v, %d requests", name, labels, exists, err, asked)
		}
	}
}

func TestChangedLabelsAreReported(t *testing.T) {
	t.Parallel()
	reports := 0
	h := changes(func(string) { reports++ })
	was, same, is := labelledNamespace("a", nil), labelledNamespace("a", map[string]string{}),
		labelledNamespace("a", map[string]string{"stage": "prod"})
	h.OnAdd(was, true)
	h.OnUpdate(was, same)
	if reports != 0 || maps.Equal(was.Labels, is.Labels) {
		t.Errorf("%d reports without a change", reports)
	}
	h.OnUpdate(same, is)
	h.OnAdd(is, false)
	if reports != 2 {
		t.Errorf("%d reports, want 2", reports)
	}
}

// The labels of a namespace are stored with each of its Services.
func TestNamespaceLabelsAreBounded(t *testing.T) {
	t.Parallel()
	all := map[string]string{route.EnvironmentLabel: "prod"}
	for i := range 1900 {
		all[fmt.Sprintf("%s%05d", strings.Repeat("a", 312), i)] = strings.Repeat("v", 63)
	}
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	n := of(cache.NewStore(cache.MetaNamespaceKeyFunc),
		fake.NewSimpleMetadataClient(scheme, labelledNamespace("many", all)))
	check := func(labels map[string]string) {
		t.Helper()
		size := 0
		for k, v := range labels {
			size += len(k) + len(v)
		}
		if size > 64<<10 || size < 60<<10 || labels[route.EnvironmentLabel] != "prod" {
			t.Errorf("%d bytes of labels, the environment is %q", size, labels[route.EnvironmentLabel])
		}
	}
	labels, _, err := n.Labels(context.Background(), "many")
	if err != nil {
		t.Fatal(err)
	}
	check(labels)
	cached, err := labelsOnly(labelledNamespace("many", all))
	if m, ok := cached.(*metav1.PartialObjectMetadata); ok && err == nil {
		check(m.Labels)
	} else {
		t.Errorf("%T, %v", cached, err)
	}
}

// Events without a setting of their source have the environment of their namespace, or else the operator's.
func TestEnvironmentOfANamespace(t *testing.T) {
	t.Parallel()
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	for name, labels := range map[string]map[string]string{
		"named":   {route.EnvironmentLabel: "blue"},
		"unnamed": {"stage": "dev"},
	} {
		if err := store.Add(labelledNamespace(name, labels)); err != nil {
			t.Fatal(err)
		}
	}
	n := &Informer{SharedIndexInformer: cached{store: store}, settings: operator{}}
	for name, want := range map[string]string{"named": "blue", "unnamed": "prod", "unknown": "prod"} {
		if got := n.EnvironmentOf(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

type operator struct{}

func (operator) Environment() v1alpha1.Environment { return v1alpha1.Environment{ID: "prod"} }

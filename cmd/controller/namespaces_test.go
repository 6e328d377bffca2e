// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
)

func labelledNamespace(name string, labels map[string]string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
	}
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
	n := &namespaceLabels{cache: store, live: client.Resource(namespaces)}
	for name, want := range map[string]struct {
		stage         string
		exists, fails bool
		asked         int
	}{
		"old": {"dev", true, false, 0}, "new": {"prod", true, false, 1}, "none": {"", false, false, 1}, "silent": {"", false, true, 1},
	} {
		asked = 0
		labels, exists, err := n.of(context.Background(), name)
		if labels["stage"] != want.stage || exists != want.exists || (err != nil) != want.fails || asked != want.asked {
			t.Errorf("%s: %v, %v, %v, %d requests", name, labels, exists, err, asked)
		}
	}
}

func TestChangedLabelsAreReported(t *testing.T) {
	t.Parallel()
	reports := 0
	h := (&namespaceLabels{}).changes(func(string) { reports++ })
	was, same, is := labelledNamespace("a", nil), labelledNamespace("a", map[string]string{}), labelledNamespace("a", map[string]string{"stage": "prod"})
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

// noted is a work queue that records added keys.
type noted struct{ keys []types.NamespacedName }

func (n *noted) EnqueueKey(key types.NamespacedName)     { n.keys = append(n.keys, key) }
func (n *noted) EnqueueSlowKey(key types.NamespacedName) { n.EnqueueKey(key) }

// With its new labels, the namespace may be selected by a source that wants a replay.
func TestRelabelledNamespaceReconcilesItsServices(t *testing.T) {
	t.Parallel()
	queue := &noted{}
	ob := observer.New(observer.Options{Kind: fakeKind{}, Ledger: ledger.New(nil, nil, nil)})
	ob.Bind(queue)
	e := &emitting{process: newProcess(t.Context(), nil, nil), sources: cache.NewSharedIndexInformer(&cache.ListWatch{}, &v1alpha1.CDEventSource{}, 0, cache.Indexers{})}
	e.router = &route.Router{SystemNamespace: "knative-cdevents"}
	e.services.Store(&service.Watch{Observer: ob})
	h := (&namespaceLabels{}).changes(e.relabelled)
	relabel := func(replay v1alpha1.Replay, selector *metav1.LabelSelector) int {
		s := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{Namespace: "knative-cdevents", Name: "all"}}
		s.Spec.Replay, s.Spec.NamespaceSelector = replay, selector
		if err := e.sources.GetIndexer().Add(s); err != nil {
			t.Fatal(err)
		}
		queue.keys = nil
		h.OnUpdate(labelledNamespace("shop", nil), labelledNamespace("shop", map[string]string{"stage": "prod"}))
		return len(queue.keys)
	}
	if relabel(v1alpha1.ReplayCurrent, &metav1.LabelSelector{}) != 1 || queue.keys[0] != cartKey {
		t.Errorf("reconciled %v", queue.keys)
	}
	// No source selects by labels, or none wants a replay.
	if relabel(v1alpha1.ReplayCurrent, nil)+relabel("", &metav1.LabelSelector{}) != 0 {
		t.Errorf("reconciled %v unnecessarily", queue.keys)
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
	n := &namespaceLabels{
		cache: cache.NewStore(cache.MetaNamespaceKeyFunc), live: fake.NewSimpleMetadataClient(scheme, labelledNamespace("many", all)).Resource(namespaces),
	}
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
	labels, _, err := n.of(context.Background(), "many")
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

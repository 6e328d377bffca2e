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
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
)

func labelledNamespace(name string, labels map[string]string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
	}
}

// A Service may be seen before the namespace that was made just before it.
func TestANamespaceThatIsNotCachedIsAskedFor(t *testing.T) {
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
			return true, nil, errors.New("no answer")
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
			t.Errorf("%s: %v, %v, %v, asked %d times", name, labels, exists, err, asked)
		}
	}
}

func TestNewLabelsAreTold(t *testing.T) {
	t.Parallel()
	told := 0
	h := (&namespaceLabels{}).changes(func(string) { told++ })
	was, same, is := labelledNamespace("a", nil), labelledNamespace("a", map[string]string{}), labelledNamespace("a", map[string]string{"stage": "prod"})
	h.OnAdd(was, true)
	h.OnUpdate(was, same)
	if told != 0 || maps.Equal(was.Labels, is.Labels) {
		t.Errorf("told %d times of nothing", told)
	}
	h.OnUpdate(same, is)
	h.OnAdd(is, false)
	if told != 2 {
		t.Errorf("told %d times", told)
	}
}

// noted is a work queue that keeps what was added.
type noted struct{ keys []types.NamespacedName }

func (n *noted) EnqueueKey(key types.NamespacedName)     { n.keys = append(n.keys, key) }
func (n *noted) EnqueueSlowKey(key types.NamespacedName) { n.EnqueueKey(key) }

// A source that is told of the present state may select the namespace from now on.
func TestServicesAreLookedAtAgainWhenANamespaceIsLabelled(t *testing.T) {
	t.Parallel()
	queue := &noted{}
	ob := observer.New(observer.Options{Kind: fakeKind{}, Ledger: ledger.New(nil, nil, nil)})
	ob.Bind(queue)
	e := &emitting{process: newProcess(t.Context(), nil, nil), sources: cache.NewSharedIndexInformer(&cache.ListWatch{}, &v1alpha1.CDEventSource{}, 0, cache.Indexers{})}
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
		t.Errorf("looked at %v", queue.keys)
	}
	// No source goes by labels, or none asks for the present state.
	if relabel(v1alpha1.ReplayCurrent, nil)+relabel("", &metav1.LabelSelector{}) != 0 {
		t.Errorf("looked at %v for nothing", queue.keys)
	}
}

// The labels of a namespace are remembered with each of its Services.
func TestVeryManyLabelsOfANamespaceAreBounded(t *testing.T) {
	t.Parallel()
	all := map[string]string{delivery.EnvironmentLabel: "prod"}
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
		if size > 64<<10 || size < 60<<10 || labels[delivery.EnvironmentLabel] != "prod" {
			t.Errorf("%d bytes of labels, the environment is %q", size, labels[delivery.EnvironmentLabel])
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

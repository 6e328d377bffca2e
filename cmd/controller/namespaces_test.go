package main

import (
	"context"
	"errors"
	"maps"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
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
	h := (&namespaceLabels{}).changes(func() { told++ })
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

// SPDX-License-Identifier: Apache-2.0

package source

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// watching reports whether all watches have started.
func (h *fixture) watching() bool {
	o := h.sinks.objects
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.followed {
		if !f.informer.HasSynced() {
			return false
		}
	}
	return true
}

func TestSinkChangesEnqueueItsSources(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	key := newSource().Namespace + "/all"
	s := h.settle(newSource(to(broker)))
	eventually(t, "watching", h.watching)
	brokers := h.dynamic.Resource(schema.GroupVersionResource{Group: "eventing.knative.dev", Version: "v1", Resource: "brokers"}).Namespace("shop")
	noticed := func(what string, do func() error) *v1alpha1.CDEventSource {
		t.Helper()
		h.mu.Lock()
		clear(h.queue)
		h.mu.Unlock()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		eventually(t, what, func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			for k := range h.queue {
				if k.String() != key {
					t.Errorf("%s was enqueued", k)
				}
			}
			return len(h.queue) > 0
		})
		return h.again(s)
	}
	// A fake's watch gives no sign when it starts.
	eventually(t, "a watch", func() bool {
		for _, a := range h.dynamic.Actions() {
			if a.GetVerb() == "watch" {
				return true
			}
		}
		return false
	})
	got := noticed("the Broker is created", func() error {
		_, err := brokers.Create(t.Context(), brokerAt("http://one.example"), metav1.CreateOptions{})
		return err
	})
	if got.Status.SinkURI.String() != "http://one.example" {
		t.Errorf("%+v", got.Status)
	}
	got = noticed("the Broker changes", func() error {
		_, err := brokers.Update(t.Context(), brokerAt("http://two.example"), metav1.UpdateOptions{})
		return err
	})
	if got.Status.SinkURI.String() != "http://two.example" {
		t.Errorf("%+v", got.Status)
	}
	got = noticed("the Broker is deleted", func() error { return brokers.Delete(t.Context(), "default", metav1.DeleteOptions{}) })
	if got.Status.SinkURI != nil || got.Status.GetCondition(apis.ConditionReady).Reason != "SinkNotFound" {
		t.Errorf("%+v", got.Status)
	}
}

func TestOnlyNamedSinksAreFollowed(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	o := h.sinks.objects
	followed := func() int { o.mu.Lock(); defer o.mu.Unlock(); return len(o.followed) }
	a := newSource(to(broker))
	b := newSource(to(broker), func(s *v1alpha1.CDEventSource) { s.Name = "b" })
	h.settle(a)
	h.settle(b)
	if followed() != 1 {
		t.Errorf("%d watches for one sink", followed())
	}
	h.settle(newSource()) // now it has a URI
	if followed() != 1 {
		t.Error("the watch of another source was ended")
	}
	if err := h.indexer.Delete(b); err != nil {
		t.Fatal(err)
	}
	if err := h.Reconcile(t.Context(), "shop/b"); err != nil {
		t.Fatal(err)
	}
	if followed() != 0 {
		t.Error("the watch outlives all sources that reference its object")
	}
}

func TestKindInstalledLater(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokerAt("http://b.example"))
	all := h.disco.Resources
	h.disco.Resources = all[:2]
	s := h.settle(newSource(to(broker)))
	if c := s.Status.GetCondition(apis.ConditionReady); c.Reason != "SinkKindNotInstalled" {
		t.Errorf("%+v", c)
	}
	h.disco.Resources = all
	if s = h.again(s); !s.Status.IsReady() {
		t.Errorf("%+v", s.Status)
	}
	// When the kind is removed, the watch ends with 404 and is not retried.
	h.disco.Resources = all[:2]
	at, err := h.sinks.objects.locate(schema.GroupVersionKind{Group: "eventing.knative.dev", Version: "v1", Kind: "Broker"}, "shop", "default")
	if err != nil {
		t.Fatal(err)
	}
	h.sinks.objects.gone(at)
	if s = h.again(s); s.Status.GetCondition(apis.ConditionReady).Reason != "SinkKindNotInstalled" || s.Status.SinkURI != nil {
		t.Errorf("%+v", s.Status)
	}
}

func TestCachedObjectsAreSmall(t *testing.T) {
	t.Parallel()
	big := brokerAt("http://b.example")
	big.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 1<<16)})
	big.Object["spec"] = map[string]any{"a": "b"}
	once, err := onlyStatus(big)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := onlyStatus(once)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{once, twice} {
		u, ok := v.(*unstructured.Unstructured)
		if !ok || u.GetAnnotations() != nil || u.Object["spec"] != nil || u.Object["status"] == nil || u.GetUID() != big.GetUID() {
			t.Errorf("%+v", v)
		}
	}
	if other, err := onlyStatus("not an object"); other != "not an object" || err != nil {
		t.Error(other, err)
	}
}

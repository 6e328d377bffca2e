// SPDX-License-Identifier: Apache-2.0

package source

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	httptransport "github.com/knative-cdevents/knative-cdevents/emitter/transport/http"
)

// A status is updated without any watch, by what the sink is at that moment.
func TestStatusIsUpdatedOnce(t *testing.T) {
	h := newFixture(t, brokerAt("http://broker.example/one"))
	o := NewOnce(t.Context(), Options{Client: h.client, Credentials: h.credentials, Schemes: httptransport.Schemes}, systemNamespace, h.disco,
		h.dynamic)
	s := newSource(to(broker))
	update := func(want string) {
		t.Helper()
		if err := h.indexer.Add(s); err != nil { // the API server has it
			t.Fatal(err)
		}
		if err := o.Update(t.Context(), s, []*v1alpha1.CDEventSource{s}, &h.operator, nil); err != nil {
			t.Fatal(err)
		}
		got, err := h.lister.Namespaced(s.Namespace).Get(s.Name)
		if err != nil {
			t.Fatal(err)
		}
		if s = got; s.Status.SinkURI.String() != want || s.Status.ObservedGeneration != s.Generation {
			t.Errorf("resolved to %s, want %s", s.Status.SinkURI, want)
		}
	}
	update("http://broker.example/one")
	writes := len(h.requests)
	update("http://broker.example/one")
	if len(h.requests) != writes {
		t.Errorf("the same was written again: %q", h.requests[writes:])
	}
	moved := brokerAt("http://broker.example/two")
	brokers := schema.GroupVersionResource{Group: "eventing.knative.dev", Version: "v1", Resource: "brokers"}
	if err := h.dynamic.Tracker().Update(brokers, moved, moved.GetNamespace()); err != nil {
		t.Fatal(err)
	}
	update("http://broker.example/two")
	for _, a := range h.dynamic.Actions() {
		if a.GetVerb() != "get" {
			t.Errorf("%s of %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
}

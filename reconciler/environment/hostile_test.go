// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// An end waits for what cannot be read, for example because a conversion webhook does not answer, and not for ever.
func TestEndDoesNotWaitForeverForWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request,
	) {
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	now := time.Now()
	k := NewKind(Options{
		Shared: observer.Shared{
			Options:  observer.Options{Now: func() time.Time { return now }},
			Metadata: metadata.NewForConfigOrDie(config),
		},
		Discovery: discovery.NewDiscoveryClientForConfigOrDie(config), Settings: defaults{},
	}, schema.GroupKind{}, Target{})
	m := memory{kind: k, EnvironmentMemory: lifecycle.EnvironmentMemory{
		Created: true, Resources: []lifecycle.ResourceRef{{APIVersion: "example.com/v1", Kind: "Thing", Name: "a"}},
	}}
	r, err := m.End(t.Context(), now)
	if err != nil || !r.Wait {
		t.Fatalf("the end does not wait: %+v, %v", r, err)
	}
	waited, ok := r.Memory.(memory)
	if !ok {
		t.Fatalf("%T", r.Memory)
	}
	now = now.Add(lifecycle.DefaultRules.EnvironmentDeletedWithin)
	r, err = waited.End(t.Context(), now)
	if err != nil || r.Wait || len(r.Transitions) != 1 ||
		r.Transitions[0].Environment.Beneath != lifecycle.BeneathUnknown {
		t.Errorf("%+v, %v", r, err)
	}
}

// Whoever writes an object chooses what it names.
func TestWhatAnObjectMayName(t *testing.T) {
	t.Parallel()
	secret := map[string]any{"apiVersion": "v1", "kind": "Secret", "name": "kubeconfig"}
	elsewhere := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "namespace": "others"}
	climbing := map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "name": "../secrets/kubeconfig"}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster",
		"metadata": map[string]any{"namespace": "mine", "name": "c"},
		"spec": map[string]any{
			"controlPlaneRef": secret, "resourceRef": secret,
			"resourceRefs": []any{secret, elsewhere, climbing},
		},
	}}
	o := object{u}
	if ref := o.controlPlane(); ref != nil {
		t.Errorf("reads %+v for the version", ref)
	}
	if ref := o.compositeOfClaim(); ref != nil {
		t.Errorf("reads %+v as a composite", ref)
	}
	if refs := o.resources(); len(refs) != 1 || refs[0].Namespace != "mine" {
		t.Errorf("waits for %+v", refs)
	}
}

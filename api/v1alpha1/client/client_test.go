// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
)

// server responds like an API server with one object of each kind, and records the requests.
type server struct {
	mu        sync.Mutex
	requested []string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requested = append(s.requested, r.Method+" "+r.URL.Path)
	s.mu.Unlock()

	w.Header().Set("Content-Type", "application/json")
	source := v1alpha1.CDEventSource{
		TypeMeta:   metav1.TypeMeta{APIVersion: "knative-cdevents.dev/v1alpha1", Kind: "CDEventSource"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "all", UID: "u1", ResourceVersion: "7"},
	}
	collection := r.URL.Path == "/apis/knative-cdevents.dev/v1alpha1/cdeventsources"
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		// An informer may request the list as the start of its watch.
		if r.URL.Query().Get("sendInitialEvents") == "true" {
			end := v1alpha1.CDEventSource{TypeMeta: source.TypeMeta, ObjectMeta: metav1.ObjectMeta{
				ResourceVersion: "7", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
			}}
			_ = json.NewEncoder(w).Encode(map[string]any{"type": watch.Added, "object": source})
			_ = json.NewEncoder(w).Encode(map[string]any{"type": watch.Bookmark, "object": end})
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		<-r.Context().Done()
	case r.Method == http.MethodGet && collection:
		_ = json.NewEncoder(w).Encode(v1alpha1.CDEventSourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "knative-cdevents.dev/v1alpha1", Kind: "CDEventSourceList"},
			ListMeta: metav1.ListMeta{ResourceVersion: "7"},
			Items:    []v1alpha1.CDEventSource{source},
		})
	default:
		_ = json.NewEncoder(w).Encode(source)
	}
}

func newClient(t *testing.T) (*client.Clientset, *server) {
	t.Helper()
	s := &server{}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	cs, err := client.New(&rest.Config{Host: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	return cs, s
}

func TestRequestPaths(t *testing.T) {
	cs, s := newClient(t)
	ctx := t.Context()
	src := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "all"}}

	got, err := cs.CDEventSources("shop").Get(ctx, "all", metav1.GetOptions{})
	if err != nil || got.UID != "u1" {
		t.Fatalf("Get = %v, %v", got, err)
	}
	if _, err := cs.CDEventSources("shop").Create(ctx, src, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := cs.CDEventSources("shop").Update(ctx, src, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := cs.CDEventSources("shop").UpdateStatus(ctx, src, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := cs.CDEventSources("shop").Patch(ctx, "all", types.MergePatchType, []byte("{}"), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	gate := &v1alpha1.CanaryGate{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}}
	if _, err := cs.CanaryGates("shop").UpdateStatus(ctx, gate, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := cs.ClusterCanaryGateTemplates().Get(ctx, "strict", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if err := cs.CDEventSubjects("knative-cdevents").Delete(ctx, "u1", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}

	const base = "/apis/knative-cdevents.dev/v1alpha1/namespaces/"
	want := []string{
		"GET " + base + "shop/cdeventsources/all",
		"POST " + base + "shop/cdeventsources",
		"PUT " + base + "shop/cdeventsources/all",
		"PUT " + base + "shop/cdeventsources/all/status",
		"PATCH " + base + "shop/cdeventsources/all",
		"PUT " + base + "shop/canarygates/cart/status",
		"GET /apis/knative-cdevents.dev/v1alpha1/clustercanarygatetemplates/strict",
		"DELETE " + base + "knative-cdevents/cdeventsubjects/u1",
	}
	if !slices.Equal(s.requested, want) {
		t.Errorf("requested\n%q\nwant\n%q", s.requested, want)
	}
}

func TestInformerFillsItsLister(t *testing.T) {
	cs, _ := newClient(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()

	informer := client.NewSourceInformer(cs, "", 0, nil)
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the cache did not fill")
	}
	lister := client.NewSourceLister(informer.GetIndexer())
	if got, err := lister.Namespaced("shop").Get("all"); err != nil || got.UID != "u1" {
		t.Errorf("Get = %v, %v", got, err)
	}
	if _, err := lister.Namespaced("shop").Get("none"); err == nil {
		t.Error("Get found an unknown name")
	}
}

func TestGatesAreListed(t *testing.T) {
	informer := client.NewGateInformer(client.NewForREST(nil), "", 0, nil)
	gate := &v1alpha1.CanaryGate{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", UID: "g1"}}
	if err := informer.GetIndexer().Add(gate); err != nil {
		t.Fatal(err)
	}
	lister := client.NewGateLister(informer.GetIndexer())
	if got, err := lister.Namespaced("shop").Get("cart"); err != nil || got.UID != "g1" {
		t.Errorf("Get = %v, %v", got, err)
	}
	if _, err := lister.Namespaced("other").Get("cart"); !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "canarygates.knative-cdevents.dev") {
		t.Errorf("Get of a gate in another namespace: %v", err)
	}
}

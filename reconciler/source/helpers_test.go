// SPDX-License-Identifier: Apache-2.0

package source

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	fakediscovery "k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	"knative.dev/pkg/reconciler"
	_ "knative.dev/pkg/system/testing" // names the namespace

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials/clientset"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/hosts"
	httptransport "github.com/knative-cdevents/knative-cdevents/emitter/transport/http"
)

const systemNamespace = "knative-cdevents"

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// operator is what the operator has set.
type operator struct{ allowed hosts.List }

func (o *operator) SinkHosts() hosts.List { return o.allowed }
func (*operator) ClusterURI() string      { return "https://cluster.example" }

// fixture is a cluster for one test: sources come from a cache, status updates go over
// HTTP, and everything else uses client-go's fakes.
type fixture struct {
	*Reconciler
	operator
	t        *testing.T
	dynamic  *dynamicfake.FakeDynamicClient
	kube     *fake.Clientset
	disco    *fakediscovery.FakeDiscovery
	indexer  cache.Indexer
	requests []string

	mu    sync.Mutex
	queue map[types.NamespacedName]int
	clock time.Time
}

func newFixture(t *testing.T, objects ...runtime.Object) *fixture {
	t.Helper()
	h := &fixture{t: t, clock: start, kube: fake.NewClientset(), queue: map[types.NamespacedName]int{}}
	h.dynamic = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		{Version: "v1", Resource: "services"}:                                     "ServiceList",
		{Version: "v1", Resource: "configmaps"}:                                   "ConfigMapList",
		{Group: "serving.knative.dev", Version: "v1", Resource: "services"}:       "ServiceList",
		{Group: "eventing.knative.dev", Version: "v1", Resource: "brokers"}:       "BrokerList",
		{Group: "flows.example.dev", Version: "v1alpha1", Resource: "waterfalls"}: "WaterfallList",
	}, objects...)
	h.disco = &fakediscovery.FakeDiscovery{Fake: &ktesting.Fake{Resources: []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "services/status", Kind: "Service", Namespaced: true},
			{Name: "services", Kind: "Service", Namespaced: true},
			{Name: "configmaps", Kind: "ConfigMap", Namespaced: true},
		}},
		{GroupVersion: "serving.knative.dev/v1", APIResources: []metav1.APIResource{{Name: "services", Kind: "Service", Namespaced: true}}},
		{GroupVersion: "eventing.knative.dev/v1", APIResources: []metav1.APIResource{{Name: "brokers", Kind: "Broker", Namespaced: true}}},
		{GroupVersion: "flows.example.dev/v1alpha1", APIResources: []metav1.APIResource{{Name: "waterfalls", Kind: "Waterfall"}}},
	}}}
	server := httptest.NewServer(http.HandlerFunc(h.serve))
	t.Cleanup(server.Close)
	cs, err := client.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	h.indexer = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	h.Reconciler = &Reconciler{
		client: cs, lister: client.NewSourceLister(h.indexer), system: systemNamespace,
		now: func() time.Time { return h.clock }, credentials: credentials.NewKeeper(clientset.API{Interface: h.kube}, httptransport.Schemes),
		settings: &h.operator,
	}
	h.sinks = newSinks(newObjects(t.Context(), h.disco, h.dynamic, h.enqueue), httptransport.Schemes)
	if err := h.Promote(reconciler.UniversalBucket(), nil); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *fixture) enqueue(key types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue[key]++
}

// serve stores status updates in the cache.
func (h *fixture) serve(w http.ResponseWriter, r *http.Request) {
	h.requests = append(h.requests, r.Method+" "+r.URL.Path)
	s := &v1alpha1.CDEventSource{}
	if err := json.NewDecoder(r.Body).Decode(s); err != nil {
		h.t.Error(err)
	}
	_, exists, _ := h.indexer.GetByKey(s.Namespace + "/" + s.Name)
	w.Header().Set("Content-Type", "application/json")
	if !exists {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
		return
	}
	if err := h.indexer.Update(s); err != nil {
		h.t.Error(err)
	}
	_ = json.NewEncoder(w).Encode(s)
}

// settle reconciles a source and returns the result.
func (h *fixture) settle(s *v1alpha1.CDEventSource) *v1alpha1.CDEventSource {
	h.t.Helper()
	if err := h.indexer.Add(s); err != nil {
		h.t.Fatal(err)
	}
	return h.again(s)
}

func (h *fixture) again(s *v1alpha1.CDEventSource) *v1alpha1.CDEventSource {
	h.t.Helper()
	err := h.Reconcile(h.t.Context(), s.Namespace+"/"+s.Name)
	if requeue(err) == 0 {
		h.t.Fatalf("reconciling: %v", err)
	}
	got, err := h.lister.Namespaced(s.Namespace).Get(s.Name)
	if err != nil {
		h.t.Fatal(err)
	}
	return got
}

// readOnly asserts that no object but the status of sources was written.
func (h *fixture) readOnly() {
	h.t.Helper()
	for _, a := range h.dynamic.Actions() {
		switch a.GetVerb() {
		case "get", "list", "watch":
		default:
			h.t.Errorf("%s of %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
	for _, r := range h.requests {
		if !strings.HasPrefix(r, "PUT ") || !strings.HasSuffix(r, "/status") {
			h.t.Errorf("request %s", r)
		}
	}
}

func newSource(change ...func(*v1alpha1.CDEventSource)) *v1alpha1.CDEventSource {
	s := &v1alpha1.CDEventSource{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.SourceKind.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "all", UID: "u1", Generation: 1},
	}
	s.Spec.Sink.URI = apis.HTTP("sink.example")
	for _, f := range change {
		f(s)
	}
	return s
}

func to(ref duckv1.KReference) func(*v1alpha1.CDEventSource) {
	return func(s *v1alpha1.CDEventSource) { s.Spec.Sink = duckv1.Destination{Ref: &ref} }
}

func toURI(t *testing.T, uri string) func(*v1alpha1.CDEventSource) {
	t.Helper()
	u, err := apis.ParseURL(uri)
	if err != nil {
		t.Fatal(err)
	}
	return func(s *v1alpha1.CDEventSource) { s.Spec.Sink.URI = u }
}

var broker = duckv1.KReference{APIVersion: "eventing.knative.dev/v1", Kind: "Broker", Name: "default"}

func object(apiVersion, kind, namespace, name string, status map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetUID(types.UID(namespace + name))
	if status != nil {
		u.Object["status"] = status
	}
	return u
}

func brokerAt(url string) *unstructured.Unstructured {
	return object("eventing.knative.dev/v1", "Broker", "shop", "default",
		map[string]any{"address": map[string]any{"url": url}})
}

func notReady(reason, message string) map[string]any {
	return map[string]any{"conditions": []any{
		map[string]any{"type": "Addressable", "status": "Unknown"},
		map[string]any{"type": "Ready", "status": "False", "reason": reason, "message": message},
	}}
}

// eventually waits for a condition that other goroutines fulfil.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 500 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("timed out after five seconds waiting for: %s", what)
}

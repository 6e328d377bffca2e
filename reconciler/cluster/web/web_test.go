// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/reconciler/authserver"
	"github.com/knative-cdevents/knative-cdevents/reconciler/pods"
)

const address = "/v1/namespaces/shop/services/cart/placement"

// anyone is a guard that takes each request for one of a pod of the Service.
type anyone struct{}

func (anyone) Synced() bool { return true }

func (anyone) Check(*http.Request, types.NamespacedName) (*pods.Pod, error) {
	return &pods.Pod{Name: "canary", UID: "uid-canary", ServiceUID: "uid-cart"}, nil
}

func (anyone) Declared(context.Context, types.NamespacedName, types.UID) (v1alpha1.PlacementMode, string, error) {
	return v1alpha1.PlacementEnforce, "cart-00002", nil
}

// filled is an informer whose cache the test fills.
type filled struct {
	cache.SharedIndexInformer
	indexer cache.Indexer
	handler cache.ResourceEventHandler
}

func (*filled) HasSynced() bool             { return true }
func (f *filled) GetStore() cache.Store     { return f.indexer }
func (f *filled) GetIndexer() cache.Indexer { return f.indexer }
func (f *filled) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	f.handler = h
	return nil, nil //nolint:nilnil // it is not used
}

func (f *filled) add(t testing.TB) {
	t.Helper()
	plan := &v1alpha1.ShardPlacement{
		ObjectMeta: metav1.ObjectMeta{Name: "service-uid-cart"},
		Spec:       v1alpha1.ShardPlacementSpec{Namespace: "shop", Service: "cart", UID: "uid-cart"},
		Status:     v1alpha1.ShardPlacementStatus{Version: 7},
	}
	if err := f.indexer.Add(plan); err != nil {
		t.Fatal(err)
	}
	f.handler.OnAdd(plan, false)
}

func (f *filled) remove(t *testing.T) {
	t.Helper()
	for _, plan := range f.indexer.List() {
		if err := f.indexer.Delete(plan); err != nil {
			t.Fatal(err)
		}
		f.handler.OnDelete(plan)
	}
}

// failing is a logger for a test that expects no warning.
type failing struct{ t *testing.T }

func (f failing) Warnw(message string, args ...any) { f.t.Error(message, args) }

func newHandler(t *testing.T) (*filled, *Handler) {
	t.Helper()
	f := &filled{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, Indexers)}
	plans, err := NewPlans(f)
	if err != nil {
		t.Fatal(err)
	}
	return f, &Handler{
		Plans: plans, Guard: anyone{}, Stopping: t.Context().Done(),
		Logger: failing{t},
	}
}

func routed(h *Handler) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle(Path, h)
	return mux
}

// A request may wait for longer than the server reads one.
func TestWaitingOutlastsTheTimeToRead(t *testing.T) {
	t.Parallel()
	f, h := newHandler(t)
	f.add(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	h.Stopping = ctx.Done()
	ended := make(chan error, 1)
	go func() { ended <- authserver.ServeListener(ctx, listener, t.TempDir(), routed(h)) }()
	began := time.Now()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://"+listener.Addr().String()+address+"?wait=12s", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("If-None-Match", `"7"`)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if took := time.Since(began); response.StatusCode != http.StatusNotModified || err != nil || took < 12*time.Second {
		t.Errorf("%d %q after %s: %v; want 304 after 12s", response.StatusCode, body, took, err)
	}
	_ = response.Body.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestConditionsOfARequest(t *testing.T) {
	t.Parallel()
	f, h := newHandler(t)
	f.add(t)
	for condition, want := range map[string]int{
		`"7"`: 304, `"6", "7"`: 304, `W/"7"`: 304, `*`: 304, `"6"`: 200, `7`: 200, ``: 200,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		r.Header.Set("If-None-Match", condition)
		w := httptest.NewRecorder()
		routed(h).ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("If-None-Match: %s: %d, want %d", condition, w.Code, want)
		}
	}
}

// The parameters of a request come in no order, so one wrong one must not depend on luck.
func TestEachParameterIsChecked(t *testing.T) {
	t.Parallel()
	for range 50 {
		if _, err := waitOf(httptest.NewRequestWithContext(t.Context(), http.MethodGet, address+"?wait=30s&watch=true",
			nil)); err == nil {
			t.Fatal("watch=true was accepted")
		}
	}
	if d, err := waitOf(httptest.NewRequestWithContext(t.Context(), http.MethodGet, address+"?wait=30s",
		nil)); err != nil || d != 30*time.Second {
		t.Errorf("wait=30s: %s, %v", d, err)
	}
}

// A client of a stream must not follow a plan that is withdrawn.
func TestAStreamEndsWithItsPlan(t *testing.T) {
	t.Parallel()
	f, h := newHandler(t)
	server := httptest.NewServer(routed(h))
	t.Cleanup(server.Close)
	stream := func() (int, io.Reader) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+address, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept", "text/event-stream")
		response, err := (&http.Client{Timeout: 5 * time.Second}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		return response.StatusCode, response.Body
	}
	if status, _ := stream(); status != http.StatusNotFound {
		t.Errorf("%d without a plan, want 404", status)
	}
	f.add(t)
	_, body := stream()
	lines := bufio.NewReader(body)
	if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, "event: placement") {
		t.Fatalf("%q: %v", line, err)
	}
	f.remove(t)
	if _, err := io.ReadAll(lines); err != nil {
		t.Errorf("the stream goes on after its plan: %v", err)
	}
}

// discarded is an answer that is not kept.
type discarded struct{ header http.Header }

func (d discarded) Header() http.Header       { return d.header }
func (discarded) Write(p []byte) (int, error) { return len(p), nil }
func (discarded) WriteHeader(int)             {}

// BenchmarkAnswer sends the largest plan, as to each of 900 pods that waited for it.
func BenchmarkAnswer(b *testing.B) {
	f := &filled{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, Indexers)}
	plans, err := NewPlans(f)
	if err != nil {
		b.Fatal(err)
	}
	f.add(b)
	plan, _ := plans.Of("uid-cart")
	plan.Status.EntityTypes = []v1alpha1.PlacementEntityType{{Name: "Cart", Owners: make([]int32, 150_000)}}
	h := routed(&Handler{Plans: plans, Guard: anyone{}, Stopping: b.Context().Done()})
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, address, nil)
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(discarded{http.Header{}}, r)
	}
}

// A pod that opens many streams must leave room for others.
func TestAPodWaitsWithFewRequests(t *testing.T) {
	t.Parallel()
	h := &waiting{}
	for i := range maxWaitingPod {
		if !h.enter("greedy") {
			t.Fatalf("request %d may not wait", i)
		}
	}
	if h.enter("greedy") {
		t.Error("a pod waits with more requests than it may")
	}
	if !h.enter("other") {
		t.Error("another pod may not wait")
	}
	h.leave("greedy")
	if !h.enter("greedy") {
		t.Error("a place that became free is not")
	}
	for i := range maxWaiting - h.all {
		h.enter(types.UID(strconv.Itoa(i)))
	}
	if h.enter("last") {
		t.Error("more requests wait than there are places")
	}
	h.leave("other")
	if h.leave("greedy"); h.byPod["other"] != 0 || h.all != maxWaiting-2 {
		t.Errorf("%d wait, %d of them from a pod that left", h.all, h.byPod["other"])
	}
}

// slow stores a member when it is told to.
type slow struct{ stored chan struct{} }

func (s slow) Register(ctx context.Context, _ types.NamespacedName, _ *pods.Pod, _, _ string) (*v1alpha1.ShardPlacement, error) {
	select {
	case <-s.stored:
	case <-ctx.Done():
	}
	return &v1alpha1.ShardPlacement{}, nil
}

func (s slow) Leave(ctx context.Context, service types.NamespacedName, pod *pods.Pod, _ string) (*v1alpha1.ShardPlacement, error) {
	return s.Register(ctx, service, pod, "", "")
}

// A pod that registers again and again does not fill the replica with requests that wait.
func TestAPodRegistersWithFewRequests(t *testing.T) {
	t.Parallel()
	s := slow{make(chan struct{})}
	mux := http.NewServeMux()
	mux.Handle(MemberPath, &Registration{Guard: anyone{}, Registrar: s, Logger: failing{t}})
	got := make(chan int, 2*maxWaitingPod)
	for i := range 2 * maxWaitingPod {
		go func() {
			w := httptest.NewRecorder()
			method := []string{http.MethodPut, http.MethodDelete}[i%2]
			mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, address+"/member", strings.NewReader("{}")))
			got <- w.Code
		}()
	}
	for range maxWaitingPod {
		if code := <-got; code != http.StatusServiceUnavailable {
			t.Errorf("a request too many: %d", code)
		}
	}
	close(s.stored)
	for range maxWaitingPod {
		if code := <-got; code != http.StatusOK {
			t.Errorf("one that may wait: %d", code)
		}
	}
}

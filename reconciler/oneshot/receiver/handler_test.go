// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/knative-cdevents/knative-cdevents/reconciler/authserver"
	"github.com/knative-cdevents/knative-cdevents/reconciler/oneshot"
)

// core notes what it is asked.
type core struct {
	mu    sync.Mutex
	asked []string
	// do is what Changed and Sweep do; nil for nothing.
	do func(ctx context.Context) error
}

func (c *core) note(ctx context.Context, what string) error {
	c.mu.Lock()
	c.asked = append(c.asked, what)
	c.mu.Unlock()
	if c.do == nil {
		return nil
	}
	return c.do(ctx)
}

func (c *core) Changed(ctx context.Context, o oneshot.Reference) error {
	return c.note(ctx, o.APIVersion+" "+o.Kind+" "+o.Namespace+"/"+o.Name)
}

func (c *core) Sweep(ctx context.Context) error { return c.note(ctx, "sweep") }

func (c *core) got() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.asked, ", ")
}

// guard gives every sender the same answer.
type guard struct{ err error }

func (g guard) Check(*http.Request) error { return g.err }

func newHandler(c *core, change ...func(*Handler)) *Handler {
	h := &Handler{Core: c, Guard: guard{}, Logger: zap.NewNop().Sugar()}
	for _, f := range change {
		f(h)
	}
	return h.Init()
}

const cart = "serving.knative.dev/v1 Service shop/cart"

// about makes a ring in binary mode. Its body names something else.
func about(kind, apiVersion, key, object string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/", strings.NewReader(
		`{"apiVersion":"v1","kind":"Secret","namespace":"kube-system","name":"lie","metadata":{"name":"lie"}}`))
	namespace, name, _ := strings.Cut(key, "/")
	for attribute, value := range map[string]string{
		"specversion": "1.0", "id": "1", "source": "https://api", "type": kind,
		"apiversion": apiVersion, "kind": object, "namespace": namespace, "name": name,
	} {
		r.Header.Set("Ce-"+attribute, value)
	}
	r.Header.Set("Content-Type", "application/json")
	return r
}

func aboutCart() *http.Request {
	return about("dev.knative.apiserver.ref.update", "serving.knative.dev/v1", "shop/cart", "Service")
}

func structured(body string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/cloudevents+json")
	return r
}

func without(header string) *http.Request {
	r := aboutCart()
	r.Header.Del(header)
	return r
}

// repeated are the 4xx that the doorbell takes for trouble that passes.
var repeated = map[int]bool{404: true, 408: true, 409: true, 421: true, 425: true, 429: true}

func ask(t *testing.T, h *Handler, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if repeated[w.Code] {
		t.Errorf("%d is repeated", w.Code)
	}
	if (w.Code == http.StatusServiceUnavailable) != (w.Header().Get("Retry-After") != "") {
		t.Errorf("%d with Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
	return w
}

func TestRings(t *testing.T) {
	t.Parallel()
	const ref = "dev.knative.apiserver.ref.update"
	long := strings.Repeat("x", maxBody)
	unknown := aboutCart()
	unknown.Body, unknown.ContentLength = io.NopCloser(strings.NewReader(long+long)), -1
	get := aboutCart()
	get.Method = http.MethodGet
	batch := structured(`[]`)
	batch.Header.Set("Content-Type", "application/cloudevents-batch+json")
	for name, c := range map[string]struct {
		request *http.Request
		status  int
		// want is what the core is asked, or else a part of the answer.
		want string
	}{
		"a reference":   {aboutCart(), 204, cart},
		"an addition":   {about("dev.knative.apiserver.ref.add", "serving.knative.dev/v1", "shop/cart", "Service"), 204, cart},
		"a deletion":    {about("dev.knative.apiserver.ref.delete", "serving.knative.dev/v1", "shop/cart", "Service"), 204, cart},
		"an object":     {about("dev.knative.apiserver.resource.add", "serving.knative.dev/v1", "shop/cart", "Service"), 204, cart},
		"as updated":    {about("dev.knative.apiserver.resource.update", "serving.knative.dev/v1", "shop/cart", "Service"), 204, cart},
		"as deleted":    {about("dev.knative.apiserver.resource.delete", "serving.knative.dev/v1", "shop/cart", "Service"), 204, cart},
		"a namespace":   {about(ref, "v1", "/shop", "Namespace"), 204, "v1 Namespace /shop"},
		"a sweep":       {about(sweepType, "", "", ""), 204, "sweep"},
		"structured":    {structured(`{"specversion":"1.0","id":"1","source":"/a","type":"` + ref + `","apiversion":"serving.knative.dev/v1","kind":"Service","namespace":"shop","name":"cart","data":{"name":"lie"}}`), 204, cart},
		"a ping":        {structured(`{"specversion":"1.0","id":"1","source":"/a","type":"dev.knative.sources.ping","data":{"name":"lie"}}`), 204, "sweep"},
		"another type":  {about("dev.knative.apiserver.ref.patch", "serving.knative.dev/v1", "shop/cart", "Service"), 422, "is not that of a ring"},
		"another mode":  {about("dev.knative.apiserver.add", "serving.knative.dev/v1", "shop/cart", "Service"), 422, "is not that of a ring"},
		"no kind":       {without("Ce-Kind"), 422, "names no object"},
		"no version":    {without("Ce-Apiversion"), 422, "names no object"},
		"no name":       {without("Ce-Name"), 422, "names no object"},
		"no namespace":  {without("Ce-Namespace"), 422, "it must be the namespace of the Service"},
		"in one":        {about(ref, "v1", "a/shop", "Namespace"), 422, "empty only for a Namespace"},
		"a path":        {about(ref, "serving.knative.dev/v1", "shop/../a", "Service"), 422, "is not the name of an object"},
		"a namespace's": {about(ref, "serving.knative.dev/v1", "a.b/c", "Service"), 422, "is not the name of a namespace"},
		"no id":         {without("Ce-Id"), 400, "id"},
		"no event":      {without("Ce-Specversion"), 400, "not a CloudEvent"},
		"no JSON":       {structured(`{`), 400, "not a CloudEvent"},
		"a batch":       {batch, 400, "not a CloudEvent"},
		"GET":           {get, 405, "POST"},
		"too long":      {about(ref, "serving.knative.dev/v1", "shop/cart", "Service"), 413, "at most"},
		"a long stream": {unknown, 413, "at most"},
		"long JSON":     {structured(`{"specversion":"1.0","data":"` + long + `"}`), 413, "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "too long" {
				c.request.ContentLength = maxBody + 1
			}
			asked := &core{}
			w := ask(t, newHandler(asked), c.request)
			want := ""
			if c.status == 204 {
				want = c.want
			}
			if w.Code != c.status || asked.got() != want || want == "" && !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("%d %s, and the core was asked %q; want %d and %q", w.Code, w.Body, asked.got(), c.status, c.want)
			}
		})
	}
}

// unread is a body that must not be read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) { u.t.Error("the body was read"); return 0, io.EOF }

func TestSendersThatMayNotRing(t *testing.T) {
	t.Parallel()
	for want, err := range map[int]error{
		401: &authserver.RefusedError{Status: 401, Message: "who?"},
		403: &authserver.RefusedError{Status: 403, Message: "not you"},
		503: errors.New("no answer"),
	} {
		asked := &core{}
		r := aboutCart()
		r.Body = io.NopCloser(unread{t})
		w := ask(t, newHandler(asked, func(h *Handler) { h.Guard = guard{err} }), r)
		if w.Code != want || asked.got() != "" || strings.Contains(w.Body.String(), "no answer") {
			t.Errorf("%v: %d %s", err, w.Code, w.Body)
		}
	}
}

func TestWhatTheCoreAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do     func(context.Context) error
		status int
		says   string
	}{
		"it fails":   {func(context.Context) error { return errors.New("the API server is away") }, 503, "is away"},
		"it panics":  {func(context.Context) error { panic("a defect") }, 503, "defect of the core"},
		"never":      {func(context.Context) error { return &oneshot.NotFollowedError{Right: "use another"} }, 422, "use another"},
		"it is slow": {func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }, 503, "takes too long"},
	} {
		asked := &core{do: c.do}
		w := ask(t, newHandler(asked, func(h *Handler) { h.Within = 100 * time.Millisecond }), aboutCart())
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d %s, want %d and %q", name, w.Code, w.Body, c.status, c.says)
		}
	}
}

// TestAtOnce: what is not done counts, even if nobody waits for it any more.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	asked := &core{do: func(context.Context) error { <-end; return nil }}
	h := newHandler(asked, func(h *Handler) { h.AtOnce, h.Within = 1, 100*time.Millisecond })
	for range 2 {
		if w := ask(t, h, aboutCart()); w.Code != 503 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	if got := asked.got(); got != cart {
		t.Errorf("asked %q", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := h.Close(ctx); err == nil {
		t.Error("Close does not wait")
	}
	close(end)
	h.running.Wait()
}

func TestClosing(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	asked := &core{do: func(ctx context.Context) error { close(began); <-ctx.Done(); return context.Cause(ctx) }}
	h := newHandler(asked)
	health := func() int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", nil))
		return w.Code
	}
	if got := health(); got != 200 {
		t.Errorf("/healthz: %d", got)
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if w := ask(t, h, about(sweepType, "", "", "")); w.Code != 503 || !strings.Contains(w.Body.String(), "this core ends") {
			t.Errorf("a sweep during the end: %d %s", w.Code, w.Body)
		}
	})
	<-began
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	waiting.Wait()
	for _, r := range []*http.Request{aboutCart(), about(sweepType, "", "", "")} {
		if w := ask(t, h, r); w.Code != 503 || !strings.Contains(w.Body.String(), "this core ends") {
			t.Errorf("after the end: %d %s", w.Code, w.Body)
		}
	}
	if got := health(); got != 503 {
		t.Errorf("/healthz after the end: %d", got)
	}
}

// TestServerWaits: the server for short requests does not end one that takes long.
func TestServerWaits(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes longer than all limits of the server")
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := &core{do: func(ctx context.Context) error {
		select {
		case <-time.After(16 * time.Second):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() { _ = authserver.ServeListener(ctx, listener, "", newHandler(asked)) })
	defer serving.Wait()
	defer cancel()
	var rings sync.WaitGroup
	defer rings.Wait()
	for name, body := range map[string]string{"a body": "{}", "no body": ""} {
		rings.Go(func() {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+listener.Addr().String(), strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			request.Header = aboutCart().Header
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			defer response.Body.Close() //nolint:errcheck // everything is read
			if text, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusNoContent {
				t.Errorf("%s: %d %s", name, response.StatusCode, text)
			}
		})
	}
}

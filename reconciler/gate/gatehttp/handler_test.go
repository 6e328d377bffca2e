// SPDX-License-Identifier: Apache-2.0

package gatehttp

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/jsonpath"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/reconciler/authserver"
)

// guard admits everybody, or returns its error.
type guard struct{ err error }

func (g guard) Check(*http.Request, types.NamespacedName) error { return g.err }

// caches hold one gate, shop/cart, and its Service.
type caches struct {
	gate    *v1alpha1.CanaryGate
	service *gaterun.Service
	// starting says that they are not synced, and broken is the error of each read.
	starting bool
	broken   error
}

func (c *caches) Synced() bool { return !c.starting }

func (c *caches) Cached(key types.NamespacedName) (*v1alpha1.CanaryGate, error) {
	switch {
	case c.broken != nil:
		return nil, c.broken
	case key.String() == "shop/cart":
		return c.gate, nil
	}
	return nil, apierrors.NewNotFound(v1alpha1.GateResource.GroupResource(), key.Name)
}

func (c *caches) Effective(key types.NamespacedName) *gaterun.Service {
	if key.String() == "shop/cart" {
		return c.service
	}
	return nil
}

// serving returns a server with one gate, shop/cart.
func serving(t *testing.T, gate *v1alpha1.CanaryGate, change func(*Handler)) *httptest.Server {
	t.Helper()
	all := &caches{gate: gate, service: inForce()}
	h := &Handler{Gates: all, Services: all, Guard: guard{}, Logger: zap.NewNop().Sugar()}
	change(h)
	server := httptest.NewServer(h.Init())
	t.Cleanup(server.Close)
	return server
}

func asIs(*Handler) {}

func ask(t *testing.T, method, url, body string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(raw)
}

// flagger is the body of Flagger's POST (CanaryWebhookPayload in its v1beta1).
const flagger = `{"name":"cart","namespace":"shop","phase":"Progressing","checksum":"85d557f47b","metadata":{"type":"bash"}}`

// TestFlagger: Flagger takes a status up to 202 as yes, and 200 of its rollback hook as "roll back".
func TestFlagger(t *testing.T) {
	t.Parallel()
	for v, want := range map[verdict.Verdict]struct {
		status int
		yes    bool
		back   int
	}{
		"Pass": {200, true, 409}, "Warn": {200, true, 409}, "Fail": {409, false, 200},
		"Inconclusive": {425, false, 409}, "Running": {425, false, 409}, "Error": {503, false, 409},
		"Superseded": {425, false, 409},
	} {
		at := serving(t, judged(v), asIs).URL + "/v1/gates/shop/cart"
		status, _, body := ask(t, http.MethodPost, at, flagger)
		if status != want.status || (status <= http.StatusAccepted) != want.yes || !strings.Contains(body, `"verdict":"`+string(v)+`"`) {
			t.Errorf("%s: %d %s", v, status, body)
		}
		if status, _, body := ask(t, http.MethodPost, at+"/rollback", flagger); status != want.back {
			t.Errorf("%s: rollback %d %s", v, status, body)
		}
	}
	// An old failure neither stops nor rolls back the next canary before its first step.
	unsplit := func(h *Handler) { h.Services = &caches{service: whole()} }
	at := serving(t, judged("Fail"), unsplit).URL + "/v1/gates/shop/cart"
	if status, _, body := ask(t, http.MethodPost, at+"/rollback", flagger); status != http.StatusConflict {
		t.Errorf("rollback of another: %d %s", status, body)
	}
	if status, _, body := ask(t, http.MethodPost, at, flagger); status != http.StatusTooEarly || !strings.Contains(body, "unsplit=pass") {
		t.Errorf("before the first step: %d %s", status, body)
	}
	if status, _, body := ask(t, http.MethodPost, at+"?unsplit=pass", flagger); status != http.StatusOK {
		t.Errorf("before the first step: %d %s", status, body)
	}
	if status, _, body := ask(t, http.MethodPost, serving(t, judged("Fail", dry), asIs).URL+"/v1/gates/shop/cart/rollback", flagger); status != http.StatusConflict {
		t.Errorf("a dry run rolls back: %d %s", status, body)
	}
}

// TestArgo: the web provider of Argo Rollouts expects 2xx and reads the verdict with a JSONPath.
func TestArgo(t *testing.T) {
	t.Parallel()
	path := jsonpath.New("metrics")
	if err := path.Parse("{$.verdict}"); err != nil {
		t.Fatal(err)
	}
	for _, v := range verdict.All() {
		gate := judged(v)
		gate.Status.Run.Report = &verdict.Judgement{Canary: verdict.Samples{Requests: 100, Missing: 200}}
		gate.Status.Run.Evidence = &runtime.RawExtension{Raw: []byte(`{"secret":"evidence"}`)}
		status, header, body := ask(t, http.MethodGet, serving(t, gate, asIs).URL+"/v1/gates/shop/cart", "")
		if status != http.StatusOK || header.Get("Content-Type") != "application/json" || header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", v, status, header)
		}
		var data any
		if err := json.Unmarshal([]byte(body), &data); err != nil {
			t.Fatal(err)
		}
		found, err := path.FindResults(data)
		if err != nil || len(found) != 1 || len(found[0]) != 1 || found[0][0].Interface() != string(v) {
			t.Errorf("%s: %v %v in %s", v, found, err, body)
		}
		if !strings.Contains(body, `"missing":200`) || strings.Contains(body, "evidence") {
			t.Errorf("%s: %s", v, body)
		}
	}
}

func TestRejectedRequests(t *testing.T) {
	t.Parallel()
	const gate = "/v1/gates/shop/cart"
	unwatched := judged("Pass", func(g *v1alpha1.CanaryGate) { g.Spec.Watch = false })
	for name, c := range map[string]struct {
		gate         *v1alpha1.CanaryGate
		change       func(*Handler)
		method, path string
		body         string
		status       int
		says         string
	}{
		"no gate":             {judged("Pass"), asIs, "GET", "/v1/gates/shop/till", "", 404, "CanaryGate shop/till does not exist"},
		"no gate to post to":  {judged("Pass"), asIs, "POST", "/v1/gates/shop/till", flagger, 404, "CanaryGate shop/till does not exist"},
		"no name":             {judged("Pass"), asIs, "GET", "/v1/gates/shop/Cart!", "", 404, "is not a valid name of a CanaryGate"},
		"no path":             {judged("Pass"), asIs, "GET", "/healthz", "", 404, "/v1/gates/{namespace}/{name}"},
		"unwatched":           {unwatched, asIs, "GET", gate, "", 422, "set spec.watch to true"},
		"unwatched, posted":   {unwatched, asIs, "POST", gate, flagger, 422, "set spec.watch to true"},
		"unwatched, rollback": {unwatched, asIs, "POST", gate + "/rollback", flagger, 422, "set spec.watch to true"},
		"deleting":            {judged("Pass"), asIs, "DELETE", gate, "", 405, "GET, HEAD, POST"},
		"reading a rollback":  {judged("Pass"), asIs, "GET", gate + "/rollback", "", 405, "POST"},
		"a large body":        {judged("Pass"), asIs, "POST", gate, strings.Repeat("a", maxBody+1), 413, "65536 bytes"},
		"another parameter":   {judged("Pass"), asIs, "GET", gate + "?revision=cart-2", "", 400, "only parameter is unsplit=pass"},
		"another value":       {judged("Pass"), asIs, "GET", gate + "?unsplit=true", "", 400, "only parameter is unsplit=pass"},
		"half a parameter":    {judged("Pass"), asIs, "GET", gate + "?unsplit=%zz", "", 400, "only parameter is unsplit=pass"},
		"two parameters":      {judged("Pass"), asIs, "POST", gate + "?unsplit=pass;a=b", "", 400, "only parameter is unsplit=pass"},
		"no token":            {judged("Pass"), func(h *Handler) { h.Guard = guard{&authserver.RefusedError{Status: 401, Message: "who"}} }, "GET", gate, "", 401, "who"},
		"no permission":       {judged("Pass"), func(h *Handler) { h.Guard = guard{&authserver.RefusedError{Status: 403, Message: "no"}} }, "GET", "/v1/gates/shop/till", "", 403, "no"},
		"no API server":       {judged("Pass"), func(h *Handler) { h.Guard = guard{errors.New("internal detail")} }, "GET", gate, "", 503, "try again"},
		"just started":        {judged("Pass"), func(h *Handler) { h.Gates = &caches{starting: true} }, "GET", gate, "", 503, "just started"},
		"a broken cache":      {judged("Pass"), func(h *Handler) { h.Gates = &caches{broken: errors.New("internal detail")} }, "GET", gate, "", 503, "try again"},
	} {
		status, header, body := ask(t, c.method, serving(t, c.gate, c.change).URL+c.path, c.body)
		var said struct{ Error, Verdict string }
		if err := json.Unmarshal([]byte(body), &said); err != nil {
			t.Errorf("%s: %s: %v", name, body, err)
		}
		if status != c.status || !strings.Contains(said.Error, c.says) || said.Verdict != "" || strings.Contains(body, "internal") {
			t.Errorf("%s: %d %s", name, status, body)
		}
		if (status == http.StatusMethodNotAllowed) != (header.Get("Allow") != "") || (status == http.StatusUnauthorized) != (header.Get("WWW-Authenticate") != "") {
			t.Errorf("%s: %v", name, header)
		}
	}
}

// A client that sends many requests must not block others without a response.
func TestTooManyAtOnce(t *testing.T) {
	t.Parallel()
	h := (&Handler{Guard: guard{}}).Init()
	for range busy {
		h.slots <- struct{}{}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/gates/shop/cart", nil))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

// SPDX-License-Identifier: Apache-2.0

package doorbell

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/certs"
)

// received is a ring as the core gets it.
type received struct {
	header http.Header
	body   string
}

// bellOf returns a bell of a handler, and what that receives.
func bellOf(t *testing.T, handler http.HandlerFunc) (*bell, chan received) {
	t.Helper()
	got := make(chan received, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- received{r.Header, string(body)}
		handler(w, r)
	}))
	t.Cleanup(server.Close)
	core, err := newClient(Access{URL: server.URL}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return &bell{core: core, source: "https://10.96.0.1:443", within: 5 * time.Second}, got
}

func accepts(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }

// TestRingIsWhatApiServerSourceSends compares with what its adapter makes (knative.dev/eventing v0.50.0,
// pkg/adapter/apiserver/events).
func TestRingIsWhatApiServerSourceSends(t *testing.T) {
	b, got := bellOf(t, accepts)
	for _, c := range []struct {
		key           Key
		change        Change
		typ, ref, uri string
	}{
		{Key{Services, "shop", "cart"}, Updated, "dev.knative.apiserver.ref.update", `{"kind":"Service","namespace":"shop","name":"cart","apiVersion":"serving.knative.dev/v1"}`, "/apis/serving.knative.dev/v1/namespaces/shop/services/cart"},
		{Key{DomainMappings, "shop", "shop.example.com"}, Added, "dev.knative.apiserver.ref.add", `{"kind":"DomainMapping","namespace":"shop","name":"shop.example.com","apiVersion":"serving.knative.dev/v1beta1"}`, "/apis/serving.knative.dev/v1beta1/namespaces/shop/domainmappings/shop.example.com"},
		{Key{Namespaces, "", "shop"}, Deleted, "dev.knative.apiserver.ref.delete", `{"kind":"Namespace","name":"shop","apiVersion":"v1"}`, "/apis/v1/namespaces//namespaces/shop"},
	} {
		if r := b.ring(t.Context(), c.key, c.change); r.kind != answered {
			t.Fatal(r)
		}
		r := <-got
		for name, want := range map[string]string{
			"Ce-Specversion": "1.0", "Ce-Type": c.typ, "Ce-Source": "https://10.96.0.1:443", "Ce-Subject": c.uri,
			"Ce-Kind": c.key.Kind.Kind, "Ce-Apiversion": c.key.APIVersion, "Ce-Name": c.key.Name, "Ce-Namespace": c.key.Namespace,
			"Content-Type": "application/json",
		} {
			if has := r.header.Get(name); has != want {
				t.Errorf("%v: %s is %q, want %q", c.key, name, has, want)
			}
		}
		if r.body != c.ref {
			t.Errorf("%v: the body is %s, want %s", c.key, r.body, c.ref)
		}
		if _, err := time.Parse(time.RFC3339, r.header.Get("Ce-Time")); err != nil || r.header.Get("Ce-Id") == "" {
			t.Errorf("%v: time or id is not right: %v", c.key, r.header)
		}
	}
	b.ring(t.Context(), Sweep, Updated)
	if r := <-got; r.header.Get("Ce-Type") != "dev.knative.sources.ping" || r.body != "{}" || r.header.Get("Ce-Name") != "" {
		t.Errorf("the sweep is %+v", r)
	}
}

func TestResults(t *testing.T) {
	for code, want := range map[int]resultKind{
		200: answered, 202: answered, 204: answered,
		// Not followed: the token is for the core.
		302: failed, 308: failed,
		400: refused, 405: refused, 410: refused, 413: refused, 415: refused, 422: refused,
		401: unauthorized, 403: unauthorized, 407: unauthorized,
		// These pass, or come from what is in front of the core.
		404: failed, 408: failed, 409: failed, 421: failed, 425: failed, 429: failed,
		500: failed, 502: failed, 503: failed, 504: failed,
	} {
		b, _ := bellOf(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				t.Error("a redirect was followed")
			}
			w.Header().Set("Retry-After", "7")
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(code)
		})
		got := b.ring(t.Context(), service("cart"), Updated)
		if got.kind != want {
			t.Errorf("%d is %s, want %s", code, got.kind, want)
		}
		if want != answered && (got.after != 7*time.Second || got.err == nil) {
			t.Errorf("%d: Retry-After is %v, and the error %v", code, got.after, got.err)
		}
	}
	b, _ := bellOf(t, accepts)
	b.core.URL = "http://127.0.0.1:1"
	if got := b.ring(t.Context(), service("cart"), Updated); got.kind != failed || got.err == nil {
		t.Errorf("a core that cannot be reached: %+v", got)
	}
	slow, _ := bellOf(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	slow.within = 50 * time.Millisecond
	if got := slow.ring(t.Context(), service("cart"), Updated); got.kind != failed {
		t.Errorf("a core that does not answer in time: %+v", got)
	}
}

// TestTokenAndTrustRotate replaces both files while the client is in use.
func TestTokenAndTrustRotate(t *testing.T) {
	tokens := make(chan string, 10)
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { tokens <- r.Header.Get("Authorization") })
	server := httptest.NewTLSServer(handler)
	defer server.Close()
	dir := t.TempDir()
	ca, token := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "token")
	write := func(file, content string) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	write(ca, certs.NewAuthority(t).PEM)
	write(token, "one\n")
	core, err := newClient(Access{URL: server.URL, CAFile: ca, TokenFile: token}, 1)
	if err != nil {
		t.Fatal(err)
	}
	b := &bell{core: core, within: 5 * time.Second}
	if got := b.ring(t.Context(), Sweep, Updated); got.kind != failed || !strings.Contains(got.err.Error(), "certificate") {
		t.Errorf("an untrusted core: %+v", got)
	}
	write(ca, good)
	core.checked = time.Now().Add(-trustFor)
	for _, want := range []string{"one", "two"} {
		write(token, want+"\n")
		if got := b.ring(t.Context(), Sweep, Updated); got.kind != answered {
			t.Fatalf("%+v", got)
		}
		if got := <-tokens; got != "Bearer "+want {
			t.Errorf("the core got %q", got)
		}
	}
	for _, broken := range []string{"", "no certificate"} {
		write(ca, broken)
		core.checked = time.Now().Add(-trustFor)
		if got := b.ring(t.Context(), Sweep, Updated); got.kind != answered {
			t.Errorf("with %q as certificates, the last ones must stay trusted: %+v", broken, got)
		}
	}
	if err := os.Remove(token); err != nil {
		t.Fatal(err)
	}
	if got := b.ring(t.Context(), Sweep, Updated); got.kind != failed {
		t.Errorf("without the token: %+v", got)
	}
	for _, content := range []string{"", "no certificate"} {
		write(ca, content)
		if _, err := newClient(Access{URL: server.URL, CAFile: ca}, 1); err == nil || !strings.Contains(err.Error(), "PEM") {
			t.Errorf("at the start with %q as certificates: got error %v", content, err)
		}
	}
}

func TestRetryAfterOfAnswers(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "5": 5 * time.Second, "-5": 0, "0": 0, "soon": 0, "99999999999": 24 * time.Hour, "999999": 24 * time.Hour,
		"Fri, 02 Jan 2026 15:05:05 GMT": time.Minute, "Fri, 02 Jan 2026 15:00:00 GMT": 0,
	} {
		r := &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {header}}, Body: http.NoBody}
		if got := statusOf(r, now).RetryAfter; got != want {
			t.Errorf("Retry-After %q is %v, want %v", header, got, want)
		}
	}
}

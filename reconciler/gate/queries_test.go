// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/canary/promquery"
	"github.com/knative-cdevents/knative-cdevents/reconciler/settings/canary"
)

func TestAsk(t *testing.T) {
	t.Parallel()
	var partial atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := map[string]string{`total{r="cart-2"}`: "100", `bad{r="cart-2"}`: "3", `total{r="cart-1"}`: "900"}[r.URL.Query().Get("query")]
		if n == "" {
			n = "NaN"
		}
		_, _ = fmt.Fprintf(w, `{"status":"success","isPartial":%t,"data":{"resultType":"scalar","result":[1,"%s"]}}`, partial.Load(), n) // a test server
	}))
	t.Cleanup(s.Close)
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	template := promquery.Template{Total: "total{r={{revision}}}", Bad: "bad{r={{revision}}}"}
	q := &Queries{Settings: func() canary.Settings {
		return canary.Settings{Prometheus: at, Queries: map[string]promquery.Template{"checkout": template}}
	}}
	of := func(name, revision string) gaterun.Question {
		return gaterun.Question{Query: name, Namespace: "shop", Service: "cart", Revision: revision}
	}
	all := q.Query(t.Context(), time.Now(), []gaterun.Question{of("checkout", "cart-2"), of("checkout", "cart-1"), of("other", "cart-1")})
	if got := all[of("checkout", "cart-2")]; got != (gaterun.Reading{Total: 100, Bad: 3, Version: template.Version()}) {
		t.Errorf("%+v", got)
	}
	if got := all[of("checkout", "cart-1")]; got.Reason != gaterun.QueryUnusable || got.Version != "" || !strings.Contains(got.Detail, "bad of Revision cart-1: it returned NaN") {
		t.Errorf("%+v", got)
	}
	if got := all[of("other", "cart-1")]; got.Reason != gaterun.QueryUnknown || !strings.Contains(got.Detail, "it has checkout") {
		t.Errorf("%+v", got)
	}
	partial.Store(true)
	if got := q.Query(t.Context(), time.Now(), []gaterun.Question{of("checkout", "cart-2")})[of("checkout", "cart-2")]; got.Reason != gaterun.QueryFailed || !strings.Contains(got.Detail, "isPartial") {
		t.Errorf("%+v", got)
	}
	s.Close()
	if got := q.Query(t.Context(), time.Now(), []gaterun.Question{of("checkout", "cart-2")})[of("checkout", "cart-2")]; got.Reason != gaterun.QueryFailed {
		t.Errorf("%+v", got)
	}
	if got := (*Queries)(nil).Query(t.Context(), time.Now(), nil); got != nil {
		t.Errorf("%v", got)
	}
}

// The credentials are read, and connections made, once for all questions. The next time they may be others.
func TestAskWithCredentials(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	connections, tokens := 0, map[string]int{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		tokens[r.Header.Get("Authorization")]++
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"scalar","result":[1,"7"]}}`)) // a test server
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		if state == http.StateNew {
			connections++
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	access := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(access, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	current := canary.Settings{Prometheus: at, Queries: map[string]promquery.Template{"checkout": {Total: "total", Bad: "bad"}}}
	q := &Queries{Settings: func() canary.Settings { return current }, Access: access}
	checkout := gaterun.Question{Query: "checkout", Namespace: "shop", Service: "cart", Revision: "cart-2"}
	for i, token := range []string{"first", "second"} {
		write("token", token)
		if got := q.Query(t.Context(), time.Now(), []gaterun.Question{checkout})[checkout]; got.Reason != "" || got.Total != 7 || got.Bad != 7 {
			t.Errorf("%+v", got)
		}
		mu.Lock()
		if tokens["Bearer "+token] != 2 || connections != i+1 {
			t.Errorf("with the %s token: %v over %d connections", token, tokens, connections)
		}
		mu.Unlock()
	}
	write("ca.crt", "nonsense")
	if got := q.Query(t.Context(), time.Now(), []gaterun.Question{checkout})[checkout]; got.Reason != gaterun.QueryFailed || !strings.Contains(got.Detail, "ca.crt") {
		t.Errorf("%+v", got)
	}
	current = canary.Settings{}
	if got := q.Query(t.Context(), time.Now(), []gaterun.Question{checkout})[checkout]; got.Reason != gaterun.QueryUnknown {
		t.Errorf("without queries and a Prometheus: %+v", got)
	}
}

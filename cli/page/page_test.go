// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/knative-cdevents/knative-cdevents/cli/page"
	"github.com/knative-cdevents/knative-cdevents/cli/reader"
	"github.com/knative-cdevents/knative-cdevents/test/fleet"
)

// TestPage serves the page from a real API server, and reads what a browser would.
func TestPage(t *testing.T) {
	c := start(t)
	t.Run("not installed", func(t *testing.T) {
		r := fleet.Must[*reader.Reader](t)(reader.New(c.As("nemo"), fleet.System))
		if _, err := page.New(t.Context(), page.Options{Reader: r, Namespace: fleet.Shop, Now: time.Now}); err == nil || !strings.Contains(err.Error(), "you may not ") {
			t.Errorf("for someone without any right: %v", err)
		}
	})
	c.fill(t)
	server := c.serve(t, "operator", "system:masters")
	t.Run("guard", func(t *testing.T) { guarded(t, server.URL()) })
	t.Run("fleet", func(t *testing.T) {
		for _, q := range []struct{ query, want string }{
			{"", "books cart hooks payments search"},
			{"?q=AR", "cart search"},
			{"?only=moving", "cart payments"},
			{"?only=ailing", "hooks"},
			{"?only=pending", "cart"},
			{"?show=2", "books cart"},
		} {
			if got := strings.Join(read(t, server.URL()+"live"+q.query).names(), " "); got != q.want {
				t.Errorf("%s shows %s, want %s", q.query, got, q.want)
			}
		}
		v := read(t, server.URL()+"live?show=2")
		if v.Fleet.Matching != 5 || v.Fleet.Counts.All != 5 || *v.Fleet.Counts.Pending != 1 || len(v.Fleet.Findings) != 2 {
			t.Errorf("it counts %+v", v.Fleet)
		}
	})
	t.Run("changes", func(t *testing.T) { c.changes(t, server.URL()) })
	t.Run("gone", func(t *testing.T) {
		for query, want := range map[string]string{
			"?namespace=shop&name=nope": `there is no Knative Service "nope" in namespace shop`,
			"?namespace=fleet&name=x":   "this page shows namespace shop",
		} {
			if v := read(t, server.URL()+"live"+query); !strings.Contains(v.Error, want) {
				t.Errorf("%s: %q", query, v.Error)
			}
		}
	})
	t.Run("hostile", func(t *testing.T) { c.hostile(t, server.URL()) })
	t.Run("rights", c.rights)
	t.Run("away", c.away)
	t.Run("end", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := fleet.Must[*reader.Reader](t)(reader.New(c.As("operator", "system:masters"), fleet.System))
		s := fleet.Must[*page.Server](t)(page.New(ctx, page.Options{Reader: r, Namespace: fleet.Shop, Now: time.Now}))
		done := make(chan error, 1)
		go func() { done <- s.Serve(ctx) }()
		open := stream(t, s.URL()+"live") // an open stream does not keep it from ending
		next(t, open)
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("it did not end")
		}
	})
}

// guarded checks who gets an answer.
func guarded(t *testing.T, page string) {
	token := strings.Split(page, "/")[3]
	for _, c := range []struct {
		name string
		want int
		of   func(*http.Request)
	}{
		{"the user", http.StatusOK, func(*http.Request) {}},
		{"the user by name", http.StatusOK, func(r *http.Request) { r.Host = "localhost:1234" }},
		{"a name that resolves to this machine", http.StatusForbidden, func(r *http.Request) { r.Host = "attacker.example.com" }},
		{"the same with our port", http.StatusForbidden, func(r *http.Request) { r.Host = "attacker.example.com:" + r.URL.Port() }},
		{"without the secret", http.StatusNotFound, func(r *http.Request) { r.URL.Path = "/" }},
		{"with a wrong one", http.StatusNotFound, func(r *http.Request) { r.URL.Path = "/" + strings.Repeat("a", len(token)) + "/" }},
		{"the stream without the secret", http.StatusNotFound, func(r *http.Request) { r.URL.Path = "/live" }},
		{"another page", http.StatusForbidden, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }},
		{"a page of another port", http.StatusForbidden, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }},
		{"a link", http.StatusOK, func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "navigate")
		}},
		{"a write", http.StatusMethodNotAllowed, func(r *http.Request) { r.Method = http.MethodPost }},
	} {
		r := fleet.Must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, page, nil))
		c.of(r)
		status, header, body := answer(t, r)
		if status != c.want {
			t.Errorf("%s: %d, want %d", c.name, status, c.want)
		}
		if p := header.Get("Content-Security-Policy"); !strings.HasPrefix(p, "default-src 'none'; script-src 'self';") || strings.Contains(p, "unsafe") || strings.Contains(p, "http") {
			t.Errorf("%s: its policy is %s", c.name, p)
		}
		if c.want != http.StatusOK && bytes.Contains(body, []byte(token)) {
			t.Errorf("%s: the answer has the secret", c.name)
		}
	}
	for name := range strings.FieldsSeq("index.html app.js base.css icon.svg") {
		if status, _, _ := answer(t, fleet.Must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, page+name, nil))); status != http.StatusOK {
			t.Errorf("%s: %d", name, status)
		}
	}
}

// answer sends a request and reads the answer.
func answer(t *testing.T, r *http.Request) (status int, header http.Header, body []byte) {
	t.Helper()
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close() //nolint:errcheck // only read
	return w.StatusCode, w.Header, fleet.Must[[]byte](t)(io.ReadAll(w.Body))
}

// seen is what the tests read of a view.
type seen struct {
	Error    string   `json:"error"`
	Notes    []string `json:"notes"`
	Troubles []string `json:"troubles"`
	Fleet    *struct {
		Counts struct {
			All     int  `json:"all"`
			Pending *int `json:"pending"`
		} `json:"counts"`
		Services []struct {
			Name    string `json:"name"`
			Pending *int64 `json:"pending"`
		} `json:"services"`
		Matching int   `json:"matching"`
		Findings []any `json:"findings"`
	} `json:"fleet"`
	Service *struct {
		Traffic []struct {
			Percent int64 `json:"percent"`
		} `json:"traffic"`
		Moments []struct {
			Name string `json:"name"`
		} `json:"moments"`
		Revisions []struct {
			Name, Image string
		} `json:"revisions"`
		Runs []struct {
			Most   *float64 `json:"most"`
			Series []struct {
				Handled float64 `json:"handled"`
			} `json:"series"`
			Judgement struct {
				HandledShare float64 `json:"handledShare"`
			} `json:"judgement"`
		} `json:"runs"`
		History struct {
			Notes []string `json:"notes"`
		} `json:"history"`
	} `json:"service"`
}

func (s seen) names() []string {
	var out []string
	for _, one := range s.Fleet.Services {
		out = append(out, one.Name)
	}
	return out
}

// changes lets the canary get more traffic while a stream is open.
func (c *cluster) changes(t *testing.T, page string) {
	open := stream(t, page+"live?namespace=shop&name=cart")
	v := next(t, open)
	if v.Service == nil || len(v.Service.Runs) != 1 || v.Service.Runs[0].Judgement.HandledShare != .36 || *v.Service.Runs[0].Most != .2 {
		t.Fatalf("it shows %+v", v)
	}
	var moments []string
	for _, m := range v.Service.Moments {
		moments = append(moments, m.Name)
	}
	if got, want := strings.Join(moments, ", "), "service.deployed, service.published, revision.ready, traffic.shifted, gate began"; got != want {
		t.Errorf("its moments are %s, want %s", got, want)
	}
	if r := v.Service.Revisions; len(r) != 2 || r[0].Image == "" {
		t.Errorf("its Revisions are %+v", r)
	}
	if err := c.shift(t.Context(), 25, 200, .27); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if v = next(t, open); v.Service.Traffic[1].Percent == 25 && len(v.Service.Runs[0].Series) == 2 {
			break
		}
	}
	if last := v.Service.Moments[len(v.Service.Moments)-1]; last.Name != "traffic seen" || v.Service.Runs[0].Series[1].Handled != .27 {
		t.Errorf("after a change, it shows %+v", v.Service)
	}
}

// rights reads the page as a user who may not read the ledger, until that user may.
func (c *cluster) rights(t *testing.T) {
	c.OfferRoles(t)
	c.Bind(t, fleet.Shop, fleet.ServingView, "tess")
	c.Bind(t, fleet.Shop, "knative-cdevents-view", "tess")
	time.Sleep(2 * time.Second) // until the API server has noticed
	server := c.serve(t, "tess")
	open := stream(t, server.URL()+"live")
	v := next(t, open)
	missing := func(s string) bool { return strings.Contains(s, "you may not list cdeventsubjects") }
	if len(v.Fleet.Services) != 5 || v.Fleet.Counts.Pending != nil || !slices.ContainsFunc(v.Notes, missing) {
		t.Errorf("without the ledger, it shows %+v", v)
	}
	if one := read(t, server.URL()+"live?namespace=shop&name=cart"); len(one.Service.Moments) == 0 || !strings.Contains(fmt.Sprint(one.Service.History.Notes), "you may not get cdeventsubjects") &&
		!strings.Contains(fmt.Sprint(one.Service.History.Notes), "you may not list cdeventsubjects") {
		t.Errorf("without the ledger, it shows of a Service %+v", one.Service)
	}
	c.Bind(t, fleet.System, "knative-cdevents-ledger-view", "tess")
	for range 20 {
		if v = next(t, open); v.Fleet.Counts.Pending != nil {
			break
		}
	}
	if v.Fleet.Counts.Pending == nil || slices.ContainsFunc(v.Notes, missing) {
		t.Errorf("with the ledger, it still shows %+v", v)
	}
}

// away takes the API server away from the page for a while.
func (c *cluster) away(t *testing.T) {
	cfg := c.Config()
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(fleet.Must[*url.URL](t)(url.Parse(cfg.Host))) },
		Transport: fleet.Must[http.RoundTripper](t)(rest.TransportFor(cfg)), FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
	}
	var gone atomic.Bool
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gone.Load() {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(between.Close)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r := fleet.Must[*reader.Reader](t)(reader.New(&rest.Config{Host: between.URL}, fleet.System))
	s := fleet.Must[*page.Server](t)(page.New(ctx, page.Options{Reader: r, Namespace: fleet.Shop, Now: time.Now}))
	go func() { _ = s.Serve(ctx) }() // it ends with the test
	open := stream(t, s.URL()+"live")
	if v := next(t, open); len(v.Troubles) > 0 {
		t.Fatalf("it begins with %s", v.Troubles)
	}
	gone.Store(true)
	between.CloseClientConnections()
	v := next(t, open)
	for range 20 {
		if len(v.Troubles) > 0 {
			break
		}
		v = next(t, open)
	}
	if len(v.Fleet.Services) != 5 || len(v.Troubles) == 0 || !strings.Contains(v.Troubles[0], "may be out of date") {
		t.Errorf("without the API server, it shows %+v", v)
	}
	gone.Store(false)
	for range 20 {
		if v = next(t, open); len(v.Troubles) == 0 {
			break
		}
	}
	if len(v.Troubles) > 0 {
		t.Errorf("afterwards, it still says %s", v.Troubles)
	}
}

// read returns the first message of a stream.
func read(t *testing.T, from string) seen {
	t.Helper()
	return next(t, stream(t, from))
}

// stream opens a stream until the end of the test.
func stream(t *testing.T, from string) *bufio.Scanner {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // nothing may hang
	t.Cleanup(cancel)
	r := fleet.Must[*http.Request](t)(http.NewRequestWithContext(ctx, http.MethodGet, from, nil))
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Body.Close() })
	if got := w.Header.Get("Content-Type"); w.StatusCode != http.StatusOK || got != "text/event-stream" {
		t.Fatalf("%s: %d, %s", from, w.StatusCode, got)
	}
	out := bufio.NewScanner(w.Body)
	out.Buffer(nil, 1<<20)
	return out
}

func next(t *testing.T, from *bufio.Scanner) seen {
	t.Helper()
	return nextOf[seen](t, from)
}

// nextOf waits for the next view of a stream, and reads some of its fields.
func nextOf[T any](t *testing.T, from *bufio.Scanner) T {
	t.Helper()
	for from.Scan() {
		text, is := strings.CutPrefix(from.Text(), "data: ")
		if !is {
			continue
		}
		var m struct{ Data T }
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		return m.Data
	}
	panic(fmt.Sprintf("the stream ended: %v", from.Err()))
}

// reading fails the test if anything but a read is sent.
type reading struct {
	http.RoundTripper
	t *testing.T
}

func (r reading) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.Method != http.MethodGet {
		r.t.Errorf("the page sent %s %s", q.Method, q.URL.Path)
	}
	return r.RoundTripper.RoundTrip(q)
}

func readOnly(t *testing.T, cfg *rest.Config) *rest.Config {
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return reading{next, t} })
	return cfg
}

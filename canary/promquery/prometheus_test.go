// SPDX-License-Identifier: Apache-2.0

package promquery

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// serve returns the address of a Prometheus that gives one answer, and what it was asked.
func serve(t *testing.T, status int, body string) (*url.URL, *http.Request) {
	t.Helper()
	asked := &http.Request{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = *r
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) // a test server
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL + "/prefix")
	if err != nil {
		t.Fatal(err)
	}
	return u, asked
}

// count connects, and asks one query.
func count(t *testing.T, at *url.URL, access, expr string, as time.Time) (float64, error) {
	t.Helper()
	p, err := Connect(at, access)
	if err != nil {
		return 0, err
	}
	defer p.Close()
	return p.Count(t.Context(), expr, as)
}

func TestCount(t *testing.T) {
	t.Parallel()
	vector := func(series string) string {
		return `{"status":"success","data":{"resultType":"vector","result":[` + series + `]}}`
	}
	for name, c := range map[string]struct {
		status   int
		body     string
		want     float64
		says     string
		unusable bool
	}{
		"one series":   {200, vector(`{"metric":{"a":"b"},"value":[1,"42"]}`), 42, "", false},
		"a scalar":     {200, `{"status":"success","data":{"resultType":"scalar","result":[1,"7"]}}`, 7, "", false},
		"nothing":      {200, vector(""), 0, "it returned 0 series instead of one", true},
		"two series":   {200, vector(`{"value":[1,"42"]},{"value":[1,"42"]}`), 0, "2 series", true},
		"NaN":          {200, vector(`{"value":[1,"NaN"]}`), 0, "NaN, which is not a count", true},
		"infinite":     {200, vector(`{"value":[1,"+Inf"]}`), 0, "+Inf, which is not a count", true},
		"negative":     {200, vector(`{"value":[1,"-1"]}`), 0, "-1, which is not a count", true},
		"a number":     {200, vector(`{"value":[1,42]}`), 0, "something else than numbers", true},
		"a matrix":     {200, `{"status":"success","data":{"resultType":"matrix","result":[]}}`, 0, "a matrix instead of one number", true},
		"wrong query":  {400, `{"status":"error","error":"unknown function"}`, 0, "answered 400 unknown function", false},
		"an error":     {200, `{"status":"error","error":"too many samples"}`, 0, "too many samples", false},
		"partial":      {200, `{"status":"success","warnings":["a store is away"],"data":{"resultType":"scalar","result":[1,"7"]}}`, 0, "a store is away", false},
		"no JSON":      {200, "hello", 0, "is not one", false},
		"too long":     {200, vector(strings.Repeat(" ", mostAnswer)), 0, "is too long", false},
		"a redirect":   {302, "", 0, "answered 302", false},
		"a login page": {200, "<html>", 0, "is not one", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, asked := serve(t, c.status, c.body)
			got, err := count(t, at, "", `sum(a{b="c"})`, time.UnixMilli(1_800_000_000_123))
			var unusable *UnusableError
			if got != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) || errors.As(err, &unusable) != c.unusable {
				t.Errorf("%v, %v", got, err)
			}
			if asked.URL.Path != "/prefix/api/v1/query" || asked.URL.Query().Get("query") != `sum(a{b="c"})` || asked.URL.Query().Get("time") != "1800000000.123" {
				t.Errorf("asked for %s", asked.URL)
			}
		})
	}
	gone, _ := serve(t, 200, "")
	gone.Host = "127.0.0.1:1"
	if _, err := count(t, gone, "", "secret_name", time.Now()); err == nil || !strings.Contains(err.Error(), "asking Prometheus at http://127.0.0.1:1") || strings.Contains(err.Error(), "secret_name") {
		t.Errorf("%v", err)
	}
}

// A token goes to the operator's Prometheus only, if its certificate can be trusted.
func TestToken(t *testing.T) {
	t.Parallel()
	var got string
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"scalar","result":[1,"7"]}}`)) // a test server
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	access := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(access, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("token", "abc\n")
	if _, err := count(t, u, access, "a", time.Now()); err == nil || got != "" {
		t.Errorf("a stranger got %q: %v", got, err)
	}
	write("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	if n, err := count(t, u, access, "a", time.Now()); err != nil || n != 7 || got != "Bearer abc" {
		t.Errorf("%v, %v, %q", n, err, got)
	}
	plain, _ := serve(t, 200, "")
	if _, err := count(t, plain, access, "a", time.Now()); err == nil || !strings.Contains(err.Error(), "a token is sent over https only") {
		t.Errorf("%v", err)
	}
}

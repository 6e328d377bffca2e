// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"testing"
)

// shards answers immediately.
type shards struct{ ready bool }

func (s shards) started() bool { return s.ready }
func (s shards) request(a ask) answer {
	return answer{ask: a, Outcome: ok, Handled: &identity{"r", "p"}}
}

func TestFront(t *testing.T) {
	t.Parallel()
	conf := testConfig("cart-00001", 0)
	for name, c := range map[string]struct {
		method, path, id string
		to               shards
		status           int
		want             string
	}{
		"a cart":                 {"GET", "/cart/a", "r-1", shards{}, 200, `"request":"r-1","cart":"a","shard":`},
		"a cart by POST":         {"POST", "/cart/a", "r-1", shards{}, 200, `"entered":{"revision":"cart-00001","pod":"cart-00001-pod-0"}`},
		"without an id":          {"GET", "/cart/a", "", shards{}, 200, `"handled":{"revision":"r","pod":"p"}`},
		"a cart with a bad name": {"GET", "/cart/a%20b", "", shards{}, 400, "up to 64"},
		"an id with a bad name":  {"GET", "/cart/a", "a\"b", shards{}, 400, "up to 64"},
		"an unknown path":        {"GET", "/", "", shards{}, 404, ""},
		"not a member yet":       {"GET", "/healthz", "", shards{}, 503, "not a member"},
		"a member":               {"GET", "/healthz", "", shards{ready: true}, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil)
			r.Header.Set("X-Request-Id", c.id)
			w := httptest.NewRecorder()
			newFront(conf, c.to).ServeHTTP(w, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("got %d %s, want %d and %q", w.Code, w.Body, c.status, c.want)
			}
		})
	}
}

func TestFatesAreDeterministicShares(t *testing.T) {
	t.Parallel()
	f := fates{FailRate: 0.05, SlowRate: 0.2}
	fails, isSlow, both := 0, 0, 0
	const n = 20000
	for i := range n {
		id := fmt.Sprintf("run-%d", i)
		got := f.of(id)
		if got != f.of(id) || got.hangs {
			t.Fatalf("%s: %+v, then %+v", id, got, f.of(id))
		}
		if got.fails {
			fails++
		}
		if got.slow {
			isSlow++
		}
		if got.fails && got.slow {
			both++
		}
	}
	for what, c := range map[string]struct {
		got  int
		want float64
	}{"failed": {fails, 0.05}, "slow": {isSlow, 0.2}, "both": {both, 0.01}} {
		// Four standard deviations: the ids are fixed, so the result never varies.
		if sd := math.Sqrt(c.want * (1 - c.want) * n); math.Abs(float64(c.got)-c.want*n) > 4*sd {
			t.Errorf("%s: %d of %d, want about %v", what, c.got, n, c.want*n)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	env := map[string]string{"K_REVISION": "cart-00001", "K_SERVICE": "cart", "FAIL_RATE": "0.05", "SLOW_FOR": "1s"}
	c, err := configFrom(func(name string) string { return env[name] })
	if err != nil || c.Cluster != "cart" || c.Self.Revision != "cart-00001" || c.Fates.FailRate != 0.05 || c.Fates.SlowFor.Seconds() != 1 || c.Shards != 100 {
		t.Errorf("got %+v, %v", c, err)
	}
	for name, value := range map[string]string{"FAIL_RATE": "1.1", "SLOW_RATE": "NaN", "HANG_RATE": "x", "SLOW_FOR": "1", "SHARDS": "0"} {
		_, err := configFrom(func(asked string) string { return map[string]string{name: value}[asked] })
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: got %v", name, value, err)
		}
	}
}

func TestEntryRevisionsAreBounded(t *testing.T) {
	t.Parallel()
	c := newCounts(testConfig("cart-00001", 0))
	for i := range 20 {
		c.finish(answer{ask: ask{Entered: identity{Revision: fmt.Sprintf("cart-%05d", i%10)}}, Outcome: ok}, 0)
	}
	families, err := c.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "stateful_requests_total" && len(f.GetMetric()) != mostEntries+1 {
			t.Errorf("%d series for 10 Revisions, want %d: %v", len(f.GetMetric()), mostEntries+1, f)
		}
	}
}

// The end-to-end tests parse the answer, and share no code with this module.
func TestAnswerAsText(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(answer{
		ask:     ask{Request: "r", Cart: "c", Shard: 7, Entered: identity{"cart-00001", "p1"}},
		Outcome: failed, Handled: &identity{"cart-00002", "p2"}, Items: 3,
	})
	const want = `{"request":"r","cart":"c","shard":7,"entered":{"revision":"cart-00001","pod":"p1"},` +
		`"outcome":"error","handled":{"revision":"cart-00002","pod":"p2"},"items":3}`
	if err != nil || string(data) != want {
		t.Errorf("got %s, %v", data, err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/canary/cluster"
)

// node serves the management API of a member.
func node(t *testing.T, answer http.HandlerFunc) netip.AddrPort {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	at, err := netip.ParseAddrPort(strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func file(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// serves answers requests for a path with the contents of a file.
func serves(t *testing.T, wantPath, name string) netip.AddrPort {
	t.Helper()
	body := file(t, name)
	return node(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != wantPath || r.Header.Get("Authorization") != "" ||
			r.Header.Get("Cookie") != "" {
			t.Errorf("%s %s with %v", r.Method, r.URL, r.Header)
		}
		_, _ = w.Write(body)
	})
}

func TestMembers(t *testing.T) {
	t.Parallel()
	m := NewManagement()
	got, err := m.Members(t.Context(), serves(t, "/cluster/members", "members.json"))
	if err != nil {
		t.Fatal(err)
	}
	if got.SelfNode != "pekko://shop@10.0.0.7:25520" || got.Leader != got.SelfNode || got.Oldest != got.Leader ||
		len(got.Members) != 3 {
		t.Errorf("%+v", got)
	}
	up := []bool{got.Members[0].Up(), got.Members[1].Up(), got.Members[2].Up()}
	if !reflect.DeepEqual(up, []bool{true, true, false}) || got.Members[1].NodeUID.String() != "8107441938571260163" ||
		got.Members[1].Roles[1] != "rev-cart-00002" {
		t.Errorf("%+v", got.Members)
	}
	if len(got.Unreachable) != 1 || got.Unreachable[0].Node != "pekko://shop@10.0.0.8:25520" ||
		len(got.Unreachable[0].ObservedBy) != 1 {
		t.Errorf("%+v", got.Unreachable)
	}
	if got, err := m.Members(t.Context(), serves(t, "/cluster/members", "forming.json")); err != nil ||
		len(got.Members) != 0 || got.Leader != "" {
		t.Errorf("before the node joins: %+v, %v", got, err)
	}
}

func TestShards(t *testing.T) {
	t.Parallel()
	m := NewManagement()
	if got, err := m.Shards(t.Context(), serves(t, "/cluster/shards/Cart", "shards.json"), "Cart"); err != nil ||
		!reflect.DeepEqual(got, []string{"7", "42"}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := m.Shards(t.Context(), serves(t, "/cluster/shards/Cart", "shards-failed.json"), "Cart"); err == nil ||
		got != nil {
		t.Errorf("with a failed shard: %v, %v", got, err)
	}
	empty := node(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"regions":[]}`)) })
	none := node(t, http.NotFound)
	for _, at := range []netip.AddrPort{empty, none} {
		if got, err := m.Shards(t.Context(), at, "Cart"); err != nil || got != nil {
			t.Errorf("%v, %v", got, err)
		}
	}
}

func TestInvalidResponses(t *testing.T) {
	t.Parallel()
	redirected := atomic.Int32{}
	target := node(t, func(w http.ResponseWriter, _ *http.Request) {
		redirected.Add(1)
		_, _ = w.Write(file(t, "members.json"))
	})
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"a timeout inside the node": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "timed out", http.StatusInternalServerError)
		}, "500"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+target.String()+"/cluster/members", http.StatusFound)
		}, "302"},
		"not JSON": {
			func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
			"the response is not valid",
		},
		"the wrong type": {
			func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"members":"x"}`)) },
			"the response is not valid",
		},
		"a large response": {
			func(w http.ResponseWriter, _ *http.Request) { flood(w, `{"selfNode":"`, "0123456789abcdef") },
			"larger than",
		},
		"no route": {http.NotFound, "404"},
		"truncated JSON": {
			func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"members":[`)) },
			"unexpected end",
		},
	} {
		_, err := NewManagement().Members(t.Context(), node(t, c.answer))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if errors.Is(err, cluster.ErrNoRoute) != (name == "no route") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if redirected.Load() != 0 {
		t.Error("the client followed a redirect")
	}
	gone := netip.MustParseAddrPort("127.0.0.1:1")
	if _, err := NewManagement().Members(t.Context(), gone); err == nil || strings.Count(err.Error(), "127.0.0.1:1") > 2 {
		t.Errorf("nothing listens there: %v", err)
	}
}

func flood(w http.ResponseWriter, head, body string) {
	_, _ = w.Write([]byte(head))
	chunk := []byte(strings.Repeat(body, 1<<12))
	for range maxAnswer/len(chunk) + 2 {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

func TestHangingResponseTimesOut(t *testing.T) {
	t.Parallel()
	at := node(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := NewManagement().Members(ctx, at); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestConcurrentRequestsAreLimited(t *testing.T) {
	t.Parallel()
	m := NewManagement()
	for range maxInFlight {
		m.slots <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := m.Members(ctx, netip.MustParseAddrPort("127.0.0.1:1")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestDomainEvents(t *testing.T) {
	t.Parallel()
	body := file(t, "domain-events.txt")
	at := node(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") != "text/event-stream" || r.URL.Path != "/cluster/domain-events" {
			t.Errorf("%s with %v", r.URL, r.Header)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(body)
	})
	var got []string
	if err := NewManagement().Events(t.Context(), at, func(e string) { got = append(got, e) }); err != nil {
		t.Error(err)
	}
	if !reflect.DeepEqual(got, []string{"MemberUp", "UnreachableMember"}) {
		t.Errorf("%v", got)
	}
	for says, answer := range map[string]http.HandlerFunc{
		"404":           http.NotFound,
		"must be text/": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) },
		"token too long": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream;charset=UTF-8")
			flood(w, "data:", "xxxxxxxxxxxxxxxx")
		},
	} {
		if err := NewManagement().Events(t.Context(), node(t, answer), func(string) {}); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

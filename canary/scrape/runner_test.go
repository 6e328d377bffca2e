// SPDX-License-Identifier: Apache-2.0

package scrape

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape/limits"
)

// stage is a Plan and a Sink.
type stage struct {
	mu       sync.Mutex
	ready    bool
	services map[types.NamespacedName][]Target
	leads    map[types.NamespacedName]bool
	began    map[types.NamespacedName]string
	readings map[types.NamespacedName][][]Reading
	ended    map[types.NamespacedName]int
	// planned holds the Services whose targets were requested; hasty counts those that began before
	// that.
	planned map[types.NamespacedName]bool
	hasty   int
}

func (s *stage) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

func (s *stage) Services() []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []types.NamespacedName
	for key := range s.services {
		out = append(out, key)
	}
	return out
}

func (s *stage) Targets(_ context.Context, key types.NamespacedName) []Target {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.planned == nil {
		s.planned = map[types.NamespacedName]bool{}
	}
	s.planned[key] = true
	return s.services[key]
}

func (s *stage) Dying(ctx context.Context, key types.NamespacedName) []Target {
	var out []Target
	for _, t := range s.Targets(ctx, key) {
		if t.Dying {
			out = append(out, t)
		}
	}
	return out
}

func (s *stage) Begin(key types.NamespacedName, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began[key] += fmt.Sprint(fresh, " ")
	if !s.planned[key] {
		s.hasty++
	}
	delete(s.planned, key)
}

func (s *stage) Read(key types.NamespacedName, all []Reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readings[key] = append(s.readings[key], all)
}

func (s *stage) End(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[key]++
}

func (s *stage) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *stage) until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for range 1500 {
		s.mu.Lock()
		ok := f()
		s.mu.Unlock()
		if ok {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("it never came to: %s", what)
}

func newStage() *stage {
	return &stage{
		ready:    true,
		services: map[types.NamespacedName][]Target{}, leads: map[types.NamespacedName]bool{},
		began:    map[types.NamespacedName]string{},
		readings: map[types.NamespacedName][][]Reading{}, ended: map[types.NamespacedName]int{},
	}
}

// IsLeaderFor implements Leader.
func (s *stage) IsLeaderFor(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leads[key]
}

// settings do not change.
type settings Settings

func (s settings) Scraping() Settings { return Settings(s) }

func run(t *testing.T, s *stage, interval time.Duration) {
	t.Helper()
	neutral := mapping.NewReader(mapping.Neutral())
	r := &Runner{
		Budget: NewBudget(),
		Client: anywhere(), Discovery: s, Sink: s,
		Leader: s, Settings: settings{
			Interval: interval, Limits: limits.Default,
			Reader: func(string) *mapping.Reader { return neutral }, Entry: neutral,
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

func name(s string) types.NamespacedName { return types.NamespacedName{Namespace: "shop", Name: s} }

// All pods of a Service are scraped at the same time, and a hanging one does not delay a pod that is
// being deleted.
func TestPodsAreReadTogether(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []time.Time
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, time.Now())
		mu.Unlock()
		if r.URL.Path == "/hang" {
			select {
			case <-r.Context().Done():
			case <-time.After(10 * time.Second):
			}
			return
		}
		fmt.Fprint(w, series(1)) //nolint:errcheck // seen by the reading
	}))
	defer server.Close()
	s := newStage()
	var pods []Target
	for i := range 10 {
		at := targetOf(t, server)
		at.Pod = types.UID(fmt.Sprint(i))
		pods = append(pods, at)
	}
	pods[9].Path = "/hang"
	s.services[name("cart")], s.leads[name("cart")] = pods, true
	run(t, s, 2*time.Second)
	for {
		mu.Lock()
		n := len(asked)
		mu.Unlock()
		if n >= 10 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	mu.Lock()
	if spread := asked[9].Sub(asked[0]); spread > time.Second {
		t.Errorf("the pods were asked within %s", spread)
	}
	mu.Unlock()
	// The batch waits for the hanging pod. Another pod is being deleted now.
	late := targetOf(t, server)
	late.Pod, late.Dying = "late", true
	s.set(func() { s.services[name("cart")] = append(pods[:len(pods):len(pods)], late) })
	s.until(t, "the dying pod read three times before the pod that hangs was given up", func() bool {
		n := 0
		for _, batch := range s.readings[name("cart")] {
			for _, r := range batch {
				if r.Target.Pod == "late" && r.Err == nil {
					n++
				}
				if r.Target.Path == "/hang" {
					return false
				}
			}
		}
		return n >= 3
	})
}

func TestWorkFollowsTheLeader(t *testing.T) {
	t.Parallel()
	at := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, series(1)) }) //nolint:errcheck // seen by the reading
	s := newStage()
	mine, theirs, idle := name("mine"), name("theirs"), name("idle")
	s.services[mine], s.services[theirs], s.services[idle] = []Target{at}, []Target{at}, nil
	s.leads[mine], s.leads[idle] = true, true
	s.ready = false
	run(t, s, time.Second)
	time.Sleep(100 * time.Millisecond)
	s.set(func() { s.ready = true })
	s.until(t, "mine is read, and idle too", func() bool { return len(s.readings[mine]) > 0 && len(s.readings[idle]) > 0 })
	s.set(func() {
		if s.began[mine] != "false " || s.began[theirs] != "" {
			t.Errorf("began: %v", s.began)
		}
		s.services[name("new")], s.leads[name("new")] = nil, true
	})
	s.until(t, "a new Service is fresh", func() bool { return s.began[name("new")] == "true " })
	s.set(func() { s.leads[mine], s.leads[theirs] = false, true })
	s.until(t, "it changed hands", func() bool { return s.ended[mine] == 1 && s.began[theirs] == "false " })
	s.set(func() {
		delete(s.services, theirs)
		s.readings[mine] = nil
	})
	s.until(t, "one that is gone is let go", func() bool { return s.ended[theirs] == 1 })
	s.set(func() { s.leads[mine] = true })
	s.until(t, "what comes back is not fresh", func() bool { return s.began[mine] == "false false " })
	s.set(func() {
		if s.hasty > 0 {
			t.Errorf("%d Services began before their pods were known", s.hasty)
		}
	})
}

func TestNext(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	offsets := map[time.Duration]int{}
	for i := range 1000 {
		key := name(fmt.Sprint("svc-", i))
		due := next(now, 15*time.Second, key)
		if !due.After(now) || due.Sub(now) > 15*time.Second {
			t.Fatalf("%s is due %s after now", key, due.Sub(now))
		}
		if again := next(due, 15*time.Second, key); again.Sub(due) != 15*time.Second {
			t.Fatalf("%s is due again after %s", key, again.Sub(due))
		}
		offsets[due.Sub(now).Truncate(time.Second)]++
	}
	if len(offsets) != 15 {
		t.Errorf("1000 Services came at %d of 15 seconds", len(offsets))
	}
	for second, n := range offsets {
		if n > 120 {
			t.Errorf("%d of 1000 came at %s", n, second)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/clients/placement"
)

// Clients that give up while a shard waits for its claim leave nothing behind.
func TestAbandonedRequests(t *testing.T) {
	f := newFleet(t)
	f.configure = func(c *Config) { c.Placement.Patience = 20 * time.Second }
	a, b := f.start("stable", &echo{name: "a"}), f.start("stable", &echo{name: "b"})
	f.together(2)
	f.enforce(func(int) *pod { return a })
	b.member.Group().Kill()
	b.stop()
	<-b.ended
	b.ended <- nil
	before := runtime.NumGoroutine()
	client := h2c()
	for range 2000 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, a.entry+"/", nil)
		req.Header.Set("X-Key", keyOf(2))
		if resp, err := client.RoundTrip(req); err == nil {
			_ = resp.Body.Close()
		}
		cancel()
	}
	time.Sleep(500 * time.Millisecond)
	if now := runtime.NumGoroutine(); now > before+200 {
		t.Errorf("%d goroutines before, %d after 2000 clients have gone", before, now)
	}
}

// A pod that ends, and waits for a long request, hears of many plans meanwhile. None of them leaves anything behind.
func TestManyPlansWhileLeaving(t *testing.T) {
	f := newFleet(t)
	a, release := f.startHeld()
	f.controller.change(func(p *placement.Plan) { p.Peers[0].Leaving = true })
	f.until("it leaves", func() bool { return !a.member.Joined() })
	before := runtime.NumGoroutine()
	for range 100 {
		f.controller.change(func(*placement.Plan) {})
		f.until("the plan is known", func() bool {
			return a.member.Group().Poller.Known().Version() == f.controller.version()
		})
	}
	if now := runtime.NumGoroutine(); now > before+20 {
		t.Errorf("%d goroutines before, %d after 100 plans", before, now)
	}
	release()
	f.until("it has ended", func() bool { return a.member.Open() == 0 })
}

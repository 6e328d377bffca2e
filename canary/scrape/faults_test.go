// SPDX-License-Identifier: Apache-2.0

package scrape

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape/limits"
)

// hooked calls functions at certain moments.
type hooked struct {
	*watchedStage
	begun   func(key types.NamespacedName)
	dying   func(all []Target) []Target
	targets func(ctx context.Context, key types.NamespacedName, all []Target) []Target
}

func (h *hooked) Begin(key types.NamespacedName, fresh bool) {
	h.watchedStage.Begin(key, fresh)
	var f func(types.NamespacedName)
	if h.set(func() { f = h.begun }); f != nil {
		f(key)
	}
}

func (h *hooked) Dying(ctx context.Context, key types.NamespacedName) []Target {
	all := h.watchedStage.Dying(ctx, key)
	var f func([]Target) []Target
	if h.set(func() { f = h.dying }); f != nil {
		return f(all)
	}
	return all
}

func (h *hooked) Targets(ctx context.Context, key types.NamespacedName) []Target {
	all := h.watchedStage.Targets(ctx, key)
	var f func(context.Context, types.NamespacedName, []Target) []Target
	if h.set(func() { f = h.targets }); f != nil {
		return f(ctx, key, all)
	}
	return all
}

func hook(t *testing.T, f func(h *hooked, r *Runner)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h, neutral := &hooked{watchedStage: &watchedStage{stage: newStage()}}, mapping.NewReader(mapping.Neutral())
		r := &Runner{
			Budget: NewBudget(), Client: NewClient(1), Discovery: h, Sink: h,
			Leader: h, Settings: settings{
				Interval: interval, Limits: limits.Default,
				Reader: func(string) *mapping.Reader { return neutral }, Entry: neutral,
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx) }()
		time.Sleep(time.Second)
		f(h, r)
		cancel()
		<-done
	})
}

// The sink learned of the pod when it began, so it must learn that the pod is gone.
func TestPodThatGoesWhileAServiceBegins(t *testing.T) {
	t.Parallel()
	key := name("cart")
	hook(t, func(h *hooked, r *Runner) {
		h.set(func() {
			h.begun = func(types.NamespacedName) {
				h.set(func() { h.services[key] = nil })
				r.Changed(key)
			}
		})
		h.set(func() { h.services[key], h.leads[key] = []Target{{Pod: "p1", Path: "/metrics"}}, true })
		r.AllChanged()
		time.Sleep(time.Hour)
		h.set(func() {
			if len(h.readings[key]) == 0 {
				t.Errorf("in an hour after it began %q with a pod, the sink was not told that the pod is gone", h.began[key])
			}
		})
	})
}

// A failed check of who owns a pod must not end the readings of a pod that is being deleted.
func TestDyingPodIsReadAfterAFailedCheck(t *testing.T) {
	t.Parallel()
	key := name("cart")
	hook(t, func(h *hooked, r *Runner) {
		failed := atomic.Bool{}
		h.set(func() {
			h.dying = func(all []Target) []Target {
				if len(all) > 0 && failed.CompareAndSwap(false, true) {
					return nil // the API server did not answer
				}
				return all
			}
		})
		h.set(func() { h.services[key], h.leads[key] = []Target{{Pod: "p1", Path: "/metrics"}}, true })
		r.AllChanged()
		time.Sleep(2 * interval)
		h.set(func() {
			h.readings = map[types.NamespacedName][][]Reading{}
			h.services[key] = []Target{{Pod: "p1", Path: "/metrics", Dying: true}}
		})
		r.Changed(key)
		time.Sleep(2 * interval)
		h.set(func() {
			if n := len(h.readings[key]); n < 20 {
				t.Errorf("a pod that is being deleted was read %d times in 30 s", n)
			}
		})
	})
}

// The last reading must give back what pods that are gone had claimed, even if the reading before it hangs.
func TestMemoriesGoWithTheLastPod(t *testing.T) {
	t.Parallel()
	key := name("cart")
	hook(t, func(h *hooked, r *Runner) {
		h.set(func() { h.services[key], h.leads[key] = []Target{{Pod: "p1", Path: "/metrics"}}, true })
		r.AllChanged()
		time.Sleep(2 * interval)
		slow := atomic.Bool{}
		h.set(func() {
			h.targets = func(_ context.Context, _ types.NamespacedName, all []Target) []Target {
				if slow.CompareAndSwap(false, true) {
					time.Sleep(interval + 5*time.Second) // four pods at five seconds each
				}
				return all
			}
		})
		time.Sleep(interval)
		h.set(func() { h.services[key] = nil })
		r.Changed(key)
		time.Sleep(time.Hour)
		synctest.Wait()
		var loop *serviceLoop
		h.set(func() { loop = r.services[key].loop }) // the runner is idle
		loop.mu.Lock()
		n := len(loop.memories)
		loop.mu.Unlock()
		if n > 0 {
			t.Errorf("an hour after the last pod, %d targets are remembered", n)
		}
	})
}

// While the API server is slow to tell whose a pod is, it must not be asked more and more at the same time.
func TestChecksOfDyingPodsDoNotPileUp(t *testing.T) {
	t.Parallel()
	key := name("cart")
	hook(t, func(h *hooked, r *Runner) {
		var now, most atomic.Int64
		h.set(func() {
			h.dying = func(all []Target) []Target {
				n := now.Add(1)
				defer now.Add(-1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(20 * time.Second) // four pods at five seconds each
				return all
			}
			h.services[key], h.leads[key] = []Target{{Pod: "p1", Path: "/metrics", Dying: true}}, true
		})
		r.AllChanged()
		for range 60 {
			time.Sleep(time.Second)
			r.Changed(key) // some pod of it changed
		}
		if n := most.Load(); n > 1 {
			t.Errorf("it was asked %d times at once", n)
		}
	})
}

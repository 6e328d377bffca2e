// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// nothing is a ledger without pending events.
type nothing struct{ Ledger }

func (nothing) Backlogs() map[types.UID]ledger.Backlog             { return nil }
func (nothing) Pending(ledger.Key, types.UID) []ledger.Pending     { return nil }
func (nothing) Abandon(types.UID, func(types.NamespacedName) bool) {}

type forgetful struct{ transport.Transport }

func (forgetful) Forget(types.UID) {}

func heap() uint64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// Ten thousand sources that have sent a few events and are now idle.
func TestIdleSourcesCostLittle(t *testing.T) {
	const many = 10_000
	sources := make([]*v1alpha1.CDEventSource, many)
	for i := range sources {
		sources[i] = sourceTo(fmt.Sprintf("source-%d", i), "sink")
	}
	d := New(t.Context(), Options{Ledger: nothing{}, Transport: forgetful{}, Leader: always})
	goroutines, before := runtime.NumGoroutine(), heap()
	for i, s := range sources {
		d.UpdateSource(s)
		for k := range 3 {
			d.Enqueue(key(i*3+k), s.UID)
		}
	}
	for range 2000 {
		if runtime.NumGoroutine() <= goroutines {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if now := runtime.NumGoroutine(); now > goroutines {
		t.Errorf("%d goroutines more than before", now-goroutines)
	}
	cost := int64(heap()) - int64(before) //nolint:gosec // no heap is that large
	t.Logf("%d sources cost %.1f MiB, %d bytes each", many, float64(cost)/(1<<20), cost/many)
	if cost > 50<<20 {
		t.Errorf("%d sources cost %d MiB, more than 50", many, cost>>20)
	}
	if n := len(d.Breakers()); n != many {
		t.Errorf("%d queues, want %d", n, many)
	}
}

// If a queue is idle for long, its clients and their connections are closed.
func TestIdleQueueClosesItsClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, sourceTo("all", "sink"))
		s.happens(t, "cart", lifecycle.Created)
		time.Sleep(restAfter / 2)
		s.happens(t, "cart", lifecycle.Deployed)
		time.Sleep(restAfter - time.Second)
		if n := s.forgotten.Load(); n != 0 {
			t.Errorf("clients closed %d times while events came", n)
		}
		time.Sleep(2 * time.Second)
		if n := s.forgotten.Load(); n != 1 {
			t.Errorf("clients closed %d times, want once", n)
		}
		// A queue with a waiting event is not idle.
		s.answer("sink", refuse(503, transport.Retry))
		s.happens(t, "cart", lifecycle.Upgraded)
		time.Sleep(10 * restAfter)
		if n := s.forgotten.Load(); n != 1 {
			t.Errorf("clients closed %d times while an event waits, want once", n)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

var updateOptions = metav1.UpdateOptions{}

// slowly is an API server that takes some time for each update.
type slowly struct {
	*store.Store
	takes           time.Duration
	hangs           string // the name of an object whose updates take three seconds
	under, together atomic.Int64
	mu              sync.Mutex
	first, last     time.Time
}

func (s *slowly) Update(ctx context.Context, o *v1alpha1.CDEventSubject,
	opts metav1.UpdateOptions,
) (*v1alpha1.CDEventSubject, error) {
	n := s.under.Add(1)
	defer s.under.Add(-1)
	s.together.Store(max(n, s.together.Load()))
	if time.Sleep(s.takes); o.Name == s.hangs {
		time.Sleep(3 * time.Second)
	}
	s.mu.Lock()
	if s.last = time.Now(); s.first.IsZero() {
		s.first = s.last
	}
	s.mu.Unlock()
	return s.Store.Update(ctx, o, opts)
}

// running runs a ledger of n Services, each with an event that is pending, until the test ends it.
func running(t *testing.T, s *slowly, n int, options ...ledger.Option) (l *ledger.Ledger, end func()) {
	t.Helper()
	l = ledger.New(s, everyone{"a"}, &counts{}, options...)
	journalIn(t, l, n, "")
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { l.Run(ctx, 4) })
	return l, func() { stop(); wg.Wait() }
}

func acknowledgeFirst(l *ledger.Ledger, from, to int) {
	for i := from; i < to; i++ {
		acknowledge(l, ledger.Name(service(i)), "a", 1)
	}
}

// Many acknowledgements of the same moment are written a second later, a few at a time.
func TestAcknowledgementsAreWrittenAFewAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slowly{Store: store.New(), takes: 5 * time.Millisecond}
		l, end := running(t, s, 50)
		defer end()
		began := time.Now()
		acknowledgeFirst(l, 0, 50)
		time.Sleep(10 * time.Second)
		if l.Held() != 0 || s.together.Load() > 4 {
			t.Errorf("%d held, and up to %d written at the same time", l.Held(), s.together.Load())
		}
		if first, last := s.first.Sub(began), s.last.Sub(began); first < time.Second || last > 1100*time.Millisecond {
			t.Errorf("written %s to %s after the acknowledgement", first, last)
		}
	})
}

// Acknowledgements wait for transitions that are being written, but not for longer than five seconds.
func TestTransitionsComeFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slowly{Store: store.New(), takes: time.Second}
		l, end := running(t, s, 6)
		began := time.Now()
		acknowledgeFirst(l, 0, 4)
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 8 { // one after the other
				must(t, journalOne(l, 5, ""))
			}
		})
		time.Sleep(4900 * time.Millisecond)
		if l.Held() != 4 {
			t.Errorf("%d held while transitions are being written", l.Held())
		}
		for l.Held() > 0 {
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(began); took > 6500*time.Millisecond {
			t.Errorf("the last one is written after %s, want five seconds and the time of a write", took)
		}
		wg.Wait()
		end()
	})
}

// When too many acknowledgements are not written, sending waits for the API server.
func TestSendingWaitsForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slowly{Store: store.New(), takes: 10 * time.Second}
		l, end := running(t, s, 4, ledger.WithMaxHeld(3))
		acknowledgeFirst(l, 0, 3)
		if !l.Admit(t.Context(), ledger.Name(service(2))) {
			t.Error("an event of a Service whose acknowledgements are held takes no more room")
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if l.Admit(ctx, ledger.Name(service(3))) {
			t.Error("a fourth Service is admitted")
		}
		began := time.Now()
		if !l.Admit(t.Context(), ledger.Name(service(3))) || time.Since(began) < 9*time.Second {
			t.Errorf("admitted after %s", time.Since(began))
		}
		end()
	})
}

// Attempts that were admitted while there was room may all be acknowledged. No other is admitted until there is room again.
func TestAttemptsUnderWayExceedTheRoom(t *testing.T) {
	t.Parallel()
	f := newFleet(t, store.New(), ledger.WithMaxHeld(2))
	f.journal(9, "")
	for i := range 8 {
		if !f.l.HasRoom(ledger.Name(service(i))) {
			t.Fatalf("attempt %d is not admitted, although nothing is held", i)
		}
	}
	f.acknowledge(8)
	if n := f.l.Held(); n != 8 || f.l.HasRoom(ledger.Name(service(8))) {
		t.Errorf("%d held, want the 8 that were under way and no further one", n)
	}
	if f.write(); !f.l.HasRoom(ledger.Name(service(8))) {
		t.Error("none is admitted after all are written")
	}
}

// When half of the room is taken, the next acknowledgements are written at once.
func TestAcknowledgementsDoNotWaitIfRoomIsScarce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slowly{Store: store.New(), takes: 5 * time.Millisecond}
		l, end := running(t, s, 6, ledger.WithMaxHeld(6))
		acknowledgeFirst(l, 0, 6)
		time.Sleep(100 * time.Millisecond)
		if l.Held() != 3 {
			t.Errorf("%d held, want half of the room", l.Held())
		}
		time.Sleep(time.Second)
		if l.Held() != 0 {
			t.Errorf("%d held a second later", l.Held())
		}
		end()
	})
}

// At the end, all that is held is written, within the time that a handover leaves.
func TestNothingAcknowledgedIsLeftAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slowly{Store: store.New(), takes: 15 * time.Millisecond}
		l, end := running(t, s, 500)
		acknowledgeFirst(l, 0, 500)
		began := time.Now()
		end()
		if took := time.Since(began); l.Held() != 0 || took > 500*time.Millisecond {
			t.Errorf("%d held after %s", l.Held(), took)
		}
	})
}

// Another process leads from now on: what is held is written at once, and so is the answer to what was under way.
func TestHandOverWritesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slowly{Store: store.New(), takes: 5 * time.Millisecond, hangs: ledger.Name(service(5))}
		leads := newLeader()
		l, end := running(t, s, 6, ledger.WithLeader(leads))
		defer end()
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() { must(t, journalOne(l, 5, "")) }) // these would wait for it
		time.Sleep(10 * time.Millisecond)
		acknowledgeFirst(l, 0, 4)
		leads.Store(false)
		l.HandOver(func(key types.NamespacedName) bool { return key.Name != "s3" })
		time.Sleep(10 * time.Millisecond)
		if l.Held() != 1 {
			t.Errorf("%d held, want that of the Service for which it still leads", l.Held())
		}
		acknowledgeFirst(l, 4, 5)
		time.Sleep(10 * time.Millisecond)
		if l.Held() != 1 {
			t.Errorf("%d held after the answer to a request that was under way", l.Held())
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// restored takes a backup with one event, acknowledges five, and restores the backup before
// the acknowledgement is written.
func restored(t *testing.T, s *store.Store, l *ledger.Ledger, q *acks) {
	t.Helper()
	must(t, add(l, lifecycle.Created, ""))
	acknowledge(l, ledger.Name(cart), "a", 1)
	must(t, q.write(l))
	backup := s.Dump()
	for range 4 {
		must(t, add(l, lifecycle.Upgraded, ""))
	}
	acknowledge(l, ledger.Name(cart), "a", 5)
	s.Restore(backup)
}

// pendingAfresh returns what is pending according to a new process, after four more events.
func pendingAfresh(t *testing.T, s *store.Store) string {
	t.Helper()
	fresh := ledger.New(s, everyone{"a"}, &counts{})
	for _, o := range s.All() {
		fresh.Observe(o)
	}
	for range 4 {
		must(t, add(fresh, lifecycle.Upgraded, "after the restore"))
	}
	return sequences(fresh.Pending(key, "a"))
}

// Events after a restore reuse the sequence numbers of events that were acknowledged before
// it.
func TestAcknowledgementsFromBeforeARestoreAreIgnored(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(*testing.T, *store.Store, *ledger.Ledger)
		want      string
	}{
		"the acknowledgements are written": {func(*testing.T, *store.Store, *ledger.Ledger) {}, "2 3 4 5"},
		"another process writes first": {func(t *testing.T, s *store.Store, _ *ledger.Ledger) {
			t.Helper()
			fresh := ledger.New(s, everyone{"a"}, &counts{})
			fresh.Observe(s.All()[0])
			for range 3 {
				must(t, add(fresh, lifecycle.Upgraded, "after the restore"))
			}
		}, "2 3 4 5 6 7 8"},
		"another event is journaled": {func(t *testing.T, _ *store.Store, l *ledger.Ledger) {
			t.Helper()
			must(t, add(l, lifecycle.Upgraded, "")) // conflicts with the restored entry
			acknowledge(l, ledger.Name(cart), "a", 5)
		}, "2 3 4 5 6"},
		"the informer sees the restored entry": {func(_ *testing.T, s *store.Store, l *ledger.Ledger) {
			o := s.All()[0].DeepCopy()
			o.ResourceVersion = "1000" // as if etcd was restored with a raised revision
			l.Observe(o)
			acknowledge(l, ledger.Name(cart), "a", 5)
		}, "2 3 4 5"},
	} {
		t.Run(name, func(t *testing.T) {
			s := store.New()
			l, q := queued(s, everyone{"a"}, &counts{})
			restored(t, s, l, q)
			c.meanwhile(t, s, l)
			_ = q.write(l)
			_ = q.write(l)
			if st := s.All()[0].Status; st.Acknowledged["a"] != 1 {
				t.Errorf("%d of %d events are acknowledged, want 1", st.Acknowledged["a"], st.Sequence)
			}
			if got := pendingAfresh(t, s); got != c.want {
				t.Errorf("pending %q, want %q", got, c.want)
			}
		})
	}
}

// While an operator restores etcd, the API server is down. When it returns, the process finds
// that its own state is outdated.
func TestDiscardedLedgerWritesNothing(t *testing.T) {
	s := store.New()
	var down atomic.Bool
	s.Before = func(string, string) error {
		if down.Load() {
			return errors.New("connection refused")
		}
		return nil
	}
	l := ledger.New(s, everyone{"a"}, &counts{})
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); l.Run(ctx, 4) }()
	must(t, add(l, lifecycle.Created, ""))
	down.Store(true)
	acknowledge(l, ledger.Name(cart), "a", 1)
	time.Sleep(50 * time.Millisecond)
	l.Discard()
	down.Store(false)
	acknowledge(l, ledger.Name(cart), "a", 1)
	began := time.Now()
	end()
	<-ended
	if st := s.All()[0].Status; len(st.Acknowledged) > 0 || time.Since(began) > time.Second {
		t.Errorf("Run returned after %s and wrote %v", time.Since(began), st.Acknowledged)
	}
}

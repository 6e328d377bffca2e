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

// restored has a source acknowledge five events of which a backup knows one, and
// restores it before that is written.
func restored(t *testing.T, s *store.Store, l *ledger.Ledger, q *acks) {
	t.Helper()
	must(t, add(l, lifecycle.Created, ""))
	l.Acknowledge(ledger.Name(cart), "a", 1)
	must(t, q.write(l))
	backup := s.Dump()
	for range 4 {
		must(t, add(l, lifecycle.Upgraded, ""))
	}
	l.Acknowledge(ledger.Name(cart), "a", 5)
	s.Restore(backup)
}

// owedAfresh is what a new process owes once four more events have happened.
func owedAfresh(t *testing.T, s *store.Store) string {
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

// The events after a restore have the numbers of those that were acknowledged before it.
func TestAcknowledgementsOfBeforeARestoreTakeNothing(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(*testing.T, *store.Store, *ledger.Ledger)
		want      string
	}{
		"they are written": {func(*testing.T, *store.Store, *ledger.Ledger) {}, "2 3 4 5"},
		"another was faster": {func(t *testing.T, s *store.Store, _ *ledger.Ledger) {
			t.Helper()
			fresh := ledger.New(s, everyone{"a"}, &counts{})
			fresh.Observe(s.All()[0])
			for range 3 {
				must(t, add(fresh, lifecycle.Upgraded, "after the restore"))
			}
		}, "2 3 4 5 6 7 8"},
		"one more comes": {func(t *testing.T, _ *store.Store, l *ledger.Ledger) {
			t.Helper()
			must(t, add(l, lifecycle.Upgraded, "")) // meets the restored entry
			l.Acknowledge(ledger.Name(cart), "a", 5)
		}, "2 3 4 5 6"},
		"the informer sees it": {func(_ *testing.T, s *store.Store, l *ledger.Ledger) {
			o := s.All()[0].DeepCopy()
			o.ResourceVersion = "1000" // as of an etcd that was restored with its revision raised
			l.Observe(o)
			l.Acknowledge(ledger.Name(cart), "a", 5)
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
				t.Errorf("of %d events, %d are acknowledged", st.Sequence, st.Acknowledged["a"])
			}
			if got := owedAfresh(t, s); got != c.want {
				t.Errorf("owed %q, want %q", got, c.want)
			}
		})
	}
}

// As an operator restores etcd: the API server is away, and the process learns from its
// return that its memory is worth nothing.
func TestADiscardedLedgerWritesNothing(t *testing.T) {
	s := store.New()
	var away atomic.Bool
	s.Before = func(string, string) error {
		if away.Load() {
			return errors.New("connection refused")
		}
		return nil
	}
	l := ledger.New(s, everyone{"a"}, &counts{})
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); l.Run(ctx, 4) }()
	must(t, add(l, lifecycle.Created, ""))
	away.Store(true)
	l.Acknowledge(ledger.Name(cart), "a", 1)
	time.Sleep(50 * time.Millisecond)
	l.Discard()
	away.Store(false)
	l.Acknowledge(ledger.Name(cart), "a", 1)
	began := time.Now()
	end()
	<-ended
	if st := s.All()[0].Status; len(st.Acknowledged) > 0 || time.Since(began) > time.Second {
		t.Errorf("it ended after %s and wrote %v", time.Since(began), st.Acknowledged)
	}
}

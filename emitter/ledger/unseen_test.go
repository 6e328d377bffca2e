// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// position is how far an informer has come.
type position string

func (p *position) LastSyncResourceVersion() string { return string(*p) }

// end ends the queue of a ledger.
func end(l *ledger.Ledger) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	l.Run(ctx, 0)
}

// retried journals a transition every two seconds until it succeeds, as an observer does. It returns how long that took.
func retried(t *testing.T, l *ledger.Ledger) time.Duration {
	t.Helper()
	began := time.Now()
	for range 60 {
		if err := add(l, lifecycle.Deployed, ""); err == nil {
			return time.Since(began)
		}
		time.Sleep(2 * time.Second)
	}
	return time.Since(began)
}

// An entry is created and deleted by hand while the watch is interrupted. The watch lists again, and never shows it.
func TestEntryThatTheWatchNeverShows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, at := store.New(), position("1")
		l := ledger.New(s, everyone{"a"}, &counts{}, ledger.WithAcks(&acks{}), ledger.WithInformer(&at))
		defer end(l)
		must(t, add(l, lifecycle.Created, ""))
		acknowledge(l, ledger.Name(cart), "a", 1)
		s.Remove(ledger.Name(cart))
		if took := retried(t, l); took < time.Minute {
			t.Errorf("its last state may still come, and it is given up after %s", took)
		}
		at = position(s.Version())
		if took := retried(t, l); took > 20*time.Second {
			t.Errorf("events wait for %s", took)
		}
		if o := s.Peek(ledger.Name(cart)); o == nil || o.Status.Sequence != 1 || l.Held() != 0 {
			t.Errorf("the entry is %+v, want a new one", o)
		}
	})
}

// The watch lists again as of a version that is newer than an entry, and it shows the entry, or its end, a little
// later. It is restored.
func TestEntryThatTheWatchShowsLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, at, seen := store.New(), position("1"), 0
		l := ledger.New(s, everyone{"a"}, &counts{}, ledger.WithInformer(&at))
		defer end(l)
		must(t, add(l, lifecycle.Created, ""))
		s.Remove(ledger.Name(cart))
		at = position(s.Version())
		for range 3 {
			if err := add(l, lifecycle.Deployed, ""); err == nil {
				t.Fatal("it is given up at once")
			}
			time.Sleep(2 * time.Second)
		}
		l.Observe(s.Changes(0)[0].Object)
		seen++
		if took := retried(t, l); took < time.Minute {
			t.Fatalf("the watch has shown it and will show its end, and it is given up after %s", took)
		}
		follow(s, l, &seen)
		must(t, add(l, lifecycle.Deployed, ""))
		if o := s.Peek(ledger.Name(cart)); o == nil || o.Status.Sequence != 2 {
			t.Errorf("the entry is %+v, want the former one", o)
		}
	})
}

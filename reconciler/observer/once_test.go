// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// lives are short lives of processes, which have nothing in common but the ledger.
type lives struct {
	t       *testing.T
	store   *store.Store
	now     time.Time
	version int
}

// look is one of them. It returns when to look again, and how many transitions there are.
func (l *lives) look(once bool, s lifecycle.Snapshot) (again time.Duration, sequence int64) {
	l.t.Helper()
	router, kind := &asked{}, &plain{live: "uid-x", created: time.Unix(0, 0), rules: lifecycle.DefaultRules}
	entries := ledger.New(l.store, router, router, ledger.WithAcks(&store.Acks{}))
	for _, o := range l.store.All() {
		entries.Observe(o)
	}
	o := New(Options{
		Kind: kind, Ledger: entries, Now: func() time.Time { return l.now }, Once: once,
		Since: func(context.Context) (time.Time, error) { return time.Unix(1, 0), nil },
	})
	o.Bind(kind)
	if err := o.Promote(reconciler.UniversalBucket(), func(reconciler.Bucket, types.NamespacedName) {}); err != nil {
		l.t.Fatal(err)
	}
	o.Start()
	key := types.NamespacedName{Namespace: "shop", Name: "cart"}
	l.version++
	o.Update(key, Part{Name: "service", Version: fmt.Sprint(l.version), Root: true, Owner: "uid-x", Value: s})
	again, err := o.Fold(l.t.Context(), key)
	if err != nil {
		l.t.Fatal(err)
	}
	return again, l.store.All()[0].Status.Sequence
}

var (
	healthy = lifecycle.Snapshot{Ready: true}
	outage  = lifecycle.Snapshot{Trouble: map[lifecycle.Incident]*lifecycle.Trouble{lifecycle.Outage: {Reason: "Uninitialized"}}}
)

// An outage is announced when it has lasted for its limit, whichever processes have seen it.
func TestWhatLastsOutlivesProcesses(t *testing.T) {
	l := &lives{t: t, store: store.New(), now: time.Unix(1000, 0)}
	limit := lifecycle.DefaultRules.OutageAfter
	l.look(true, healthy)
	if again, _ := l.look(true, outage); again != limit {
		t.Fatalf("to be looked at after %s, want %s", again, limit)
	}
	l.now = l.now.Add(limit / 2)
	writes := l.store.Writes()
	if again, n := l.look(true, outage); again != limit/2 || n != 0 || l.store.Writes() != writes {
		t.Fatalf("half of the limit: again after %s, %d transitions, %d writes", again, n, l.store.Writes()-writes)
	}
	l.look(true, healthy)
	if st := l.store.All()[0].Status; len(st.Waits) > 0 || st.Due != nil {
		t.Fatalf("it is over, and the ledger has %v until %v", st.Waits, st.Due)
	}
	l.look(true, outage)
	l.now = l.now.Add(limit - time.Second)
	if _, n := l.look(true, outage); n != 0 {
		t.Fatal("announced before its limit")
	}
	l.now = l.now.Add(time.Second)
	if again, n := l.look(true, outage); again != 0 || n != 1 {
		t.Fatalf("after its limit: %d transitions, again after %s", n, again)
	}
}

// A process that remembers continues what it finds in the ledger, and takes it out: it would not be kept true there.
func TestWhatLastsIsHandedOver(t *testing.T) {
	l := &lives{t: t, store: store.New(), now: time.Unix(1000, 0)}
	limit := lifecycle.DefaultRules.OutageAfter
	l.look(true, healthy)
	l.look(true, outage)
	l.now = l.now.Add(limit / 2)
	if again, _ := l.look(false, outage); again != limit/2 {
		t.Errorf("to be looked at after %s, want %s", again, limit/2)
	}
	if st := l.store.All()[0].Status; len(st.Waits) > 0 || st.Due != nil {
		t.Errorf("the ledger has %v until %v", st.Waits, st.Due)
	}
}

// A clock that is behind the one that wrote the ledger waits for its own limit, and no longer.
func TestWhatLastsBeganBeforeNow(t *testing.T) {
	l := &lives{t: t, store: store.New(), now: time.Unix(100_000, 0)}
	l.look(true, healthy)
	l.look(true, outage)
	l.now = l.now.Add(-time.Hour)
	if again, _ := l.look(true, outage); again != lifecycle.DefaultRules.OutageAfter {
		t.Errorf("to be looked at after %s", again)
	}
}

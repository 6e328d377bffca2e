// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/journal"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// Each leader takes about 20 s to take over, and may die before it journals anything. So a
// standby keeps its history for longer than several leader elections.
func TestStandbyKeepsHistoryAcrossSeveralLeaders(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	router := &asked{}
	o := New(Options{
		Kind: &plain{}, Ledger: ledger.New(store.New(), router, router),
		Now: func() time.Time { return now },
	})
	o.Bind(&plain{})
	o.Start()
	key := types.NamespacedName{Namespace: "shop", Name: "cart"}
	for i := range 10 {
		o.Update(key, Part{Name: "service", Version: fmt.Sprint(i + 1), Root: true, Owner: "uid-x", Value: i})
		now = now.Add(25 * time.Second)
		o.Tidy()
	}
	if got := len(o.tracks[key].updates); got != 10 {
		t.Errorf("after ten leaders, %d of 10 states are kept", got)
	}
	now = now.Add(10 * time.Minute)
	o.Tidy()
	if got := len(o.tracks[key].updates); got != 0 {
		t.Errorf("%d states are never dropped", got)
	}
}

// What came after an object waits for its end, which may take longer than a standby keeps what it sees.
func TestStandbyKeepsWhatWaitsForAnEnd(t *testing.T) {
	now := time.Unix(10_000, 0)
	record, kind := &journal.Record{}, &plain{live: "one", created: now, remains: true}
	l := ledger.New(store.New(), record, record)
	clock := func() time.Time { return now }
	leader := leading(t, kind, l, clock)
	standby := New(Options{Kind: kind, Ledger: l, Now: clock})
	standby.Bind(kind)
	standby.Start()
	version := 0
	see := func(uid types.UID, value any) {
		t.Helper()
		version++
		part := Part{Name: "service", Version: fmt.Sprint(version), Root: true, Owner: uid, Value: value}
		standby.Update(cart, part)
		leader.Update(cart, part)
		if _, err := leader.Fold(t.Context(), cart); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Minute)
		standby.Tidy()
	}
	see("one", lifecycle.Snapshot{})
	kind.live = ""
	see("one", nil)
	kind.created = now
	see("two", lifecycle.Snapshot{})
	see("two", nil)
	now = now.Add(25 * time.Minute)
	standby.Tidy()
	if kept := standby.tracks[cart]; kept == nil || len(kept.updates) < 2 {
		t.Errorf("the standby has forgotten what waits: %+v", kept)
	}
	kind.remains = false
	if _, err := leader.Fold(t.Context(), cart); err != nil {
		t.Fatal(err)
	}
	standby.Tidy()
	if kept := standby.tracks[cart]; kept != nil {
		t.Errorf("the standby keeps what is announced: %+v", kept.updates)
	}
	kind.live, kind.created = "three", now
	see("three", lifecycle.Snapshot{})
	kind.live = ""
	see("three", nil)
	kind.live, kind.created = "four", now // it stays
	see("four", lifecycle.Snapshot{})
	now = now.Add(10 * time.Minute)
	standby.Tidy()
	if kept := standby.tracks[cart]; len(kept.updates) > 0 {
		t.Errorf("the standby keeps what waits for nothing: %+v", kept.updates)
	}
}

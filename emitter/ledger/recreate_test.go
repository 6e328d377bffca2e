// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"testing"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

func TestManuallyDeletedEntryIsRecreated(t *testing.T) {
	s := store.New()
	l, q := queued(s, everyone{"a"}, &counts{})
	must(t, add(l, lifecycle.Deployed, ""))
	before := s.All()[0]
	s.Remove(before.Name)
	// Another leader may have collected it, so only the informer's last state decides.
	if err := add(l, lifecycle.Upgraded, ""); err == nil || len(s.All()) > 0 {
		t.Fatalf("%v; recreated before the informer reported the deletion: %+v", err, s.All())
	}
	l.Forget(before, true)
	must(t, q.write(l))
	if all := s.All(); len(all) != 1 || all[0].UID == before.UID {
		t.Fatalf("not recreated: %+v", all)
	}
	must(t, add(l, lifecycle.Upgraded, ""))
	if got := sequences(l.Pending(key, "a")); got != "1 2" {
		t.Errorf("pending %q", got)
	}
	l.Forget(before, true) // the informer reports the deletion again
	if len(l.Subjects(key)) != 1 {
		t.Error("the recreated entry is forgotten")
	}
}

// A former leader that was cut off for a long time must not recreate an entry that another
// leader has finished and collected.
func TestFinishedEntryIsNotRecreated(t *testing.T) {
	s := store.New()
	l, q := queued(s, everyone{"a"}, &counts{})
	must(t, add(l, lifecycle.Deployed, ""))
	s.Remove(s.All()[0].Name)
	acknowledge(l, ledger.Name(cart), "a", 1)
	if err := q.write(l); err == nil || len(s.All()) > 0 {
		t.Errorf("%v; entries %+v", err, s.All())
	}
}

// If the informer may have missed updates, the last known state may be outdated.
func TestOutdatedEntryIsNotRecreated(t *testing.T) {
	s := store.New()
	l, q := queued(s, everyone{"a"}, &counts{})
	must(t, add(l, lifecycle.Deployed, ""))
	before := s.All()[0]
	s.Remove(before.Name)
	l.Forget(before, false)
	must(t, q.write(l))
	if all := s.All(); len(all) != 0 {
		t.Errorf("recreated: %+v", all)
	}
}

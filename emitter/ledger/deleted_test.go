// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"testing"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// A user edits an entry, and then deletes it, while a transition is being written: the write conflicts, and the
// entry is gone when it is read again. It is restored as it was.
func TestEntryDeletedByHandDuringAConflict(t *testing.T) {
	s, seen := store.New(), 0
	l, q := queued(s, everyone{"a"}, &counts{})
	must(t, add(l, lifecycle.Created, ""))
	must(t, add(l, lifecycle.Deployed, ""))
	follow(s, l, &seen)
	name := ledger.Name(cart)
	s.Before = func(verb, _ string) error {
		switch verb {
		case "update":
			s.Annotate(name, "note", "by hand")
		case "get":
			s.Before = nil
			s.Remove(name)
		}
		return nil
	}
	err := add(l, lifecycle.Upgraded, "") // it is repeated later
	follow(s, l, &seen)
	must(t, q.write(l))
	if err != nil {
		must(t, add(l, lifecycle.Upgraded, ""))
	}
	o := s.Peek(name)
	if o == nil || o.Status.Sequence != 3 {
		t.Fatalf("the entry is %+v, want one with three transitions", o)
	}
	if got := sequences(l.Pending(key, "a")); got != "1 2 3" {
		t.Errorf("pending %q, want 1 2 3", got)
	}
}

// An entry is deleted by hand while the watch is interrupted: no state of it is known to be the last, so it is not
// restored. Another process may have deleted it because its object is gone.
func TestEntryDeletedWhileTheWatchIsInterruptedIsNotRestored(t *testing.T) {
	t.Parallel()
	s, seen := store.New(), 0
	l, q := queued(s, everyone{"a"}, &counts{})
	must(t, add(l, lifecycle.Created, ""))
	follow(s, l, &seen)
	o := s.Peek(ledger.Name(cart))
	s.Remove(o.Name)
	l.Forget(o, false) // the informer has listed again
	must(t, q.write(l))
	if s.Has(o.Name) || len(l.Pending(key, "a")) > 0 {
		t.Error("it is restored")
	}
	must(t, add(l, lifecycle.Deployed, ""))
	if o := s.Peek(o.Name); o == nil || o.Status.Sequence != 1 {
		t.Errorf("the entry is %+v, want a new one", o)
	}
}

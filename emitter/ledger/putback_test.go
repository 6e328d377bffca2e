package ledger_test

import (
	"testing"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

func TestAnEntryThatIsDeletedByHandIsPutBack(t *testing.T) {
	s := store.New()
	l, q := queued(s, everyone{"a"}, &counts{})
	must(t, add(l, lifecycle.Deployed, ""))
	before := s.All()[0]
	s.Remove(before.Name)
	// Somebody else may have finished and collected it: only the informer knows.
	if err := add(l, lifecycle.Upgraded, ""); err == nil || len(s.All()) > 0 {
		t.Fatalf("%v; put back without a word from the informer: %+v", err, s.All())
	}
	l.Forget(before, true)
	must(t, q.write(l))
	if all := s.All(); len(all) != 1 || all[0].UID == before.UID {
		t.Fatalf("not put back: %+v", all)
	}
	must(t, add(l, lifecycle.Upgraded, ""))
	if got := sequences(l.Pending(key, "a")); got != "1 2" {
		t.Errorf("owed %q", got)
	}
	l.Forget(before, true) // it is told once more
	if len(l.Subjects(key)) != 1 {
		t.Error("what was put back is forgotten")
	}
}

// TestWhatAnotherLeaderFinishedStaysFinished: cut off for long, with something left
// to acknowledge.
func TestWhatAnotherLeaderFinishedStaysFinished(t *testing.T) {
	s := store.New()
	l, q := queued(s, everyone{"a"}, &counts{})
	must(t, add(l, lifecycle.Deployed, ""))
	s.Remove(s.All()[0].Name)
	l.Acknowledge(ledger.Name(cart), "a", 1)
	if err := q.write(l); err == nil || len(s.All()) > 0 {
		t.Errorf("%v; entries %+v", err, s.All())
	}
}

func TestWhatMayHaveBeenMissedIsNotPutBack(t *testing.T) {
	s := store.New()
	l, q := queued(s, everyone{"a"}, &counts{})
	must(t, add(l, lifecycle.Deployed, ""))
	before := s.All()[0]
	s.Remove(before.Name)
	l.Forget(before, false)
	must(t, q.write(l))
	if all := s.All(); len(all) != 0 {
		t.Errorf("put back: %+v", all)
	}
}

package ledger_test

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// An entry with a number that no transition has could be sent, and never acknowledged.
func TestAnEntryWithANumberOfTheFutureIsGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*v1alpha1.CDEventSubjectStatus)
		owed string
		lost int64
	}{
		"an entry's number is raised":    {func(st *v1alpha1.CDEventSubjectStatus) { st.Journal[2].Sequence = 99 }, "1 2", 1},
		"the sequence is lower than all": {func(st *v1alpha1.CDEventSubjectStatus) { st.Sequence = 1 }, "1", 2},
		"the sequence is lost":           {func(st *v1alpha1.CDEventSubjectStatus) { st.Sequence = 0 }, "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			s, counted := store.New(), &counts{}
			l, q := queued(s, everyone{"a"}, counted)
			for range 3 {
				must(t, add(l, lifecycle.Upgraded, ""))
			}
			o := s.All()[0].DeepCopy()
			c.edit(&o.Status)
			o, err := s.Update(context.Background(), o, metav1.UpdateOptions{})
			must(t, err)
			l.Observe(o)
			if got := sequences(l.Pending(key, "a")); got != c.owed {
				t.Errorf("owed %q, want %q", got, c.owed)
			}
			must(t, q.write(l))
			st := s.All()[0].Status
			if st.Dropped[ledger.DroppedUnreadable] != c.lost || counted.dropped[ledger.DroppedUnreadable] != c.lost || len(st.Journal) != 3-int(c.lost) {
				t.Errorf("%d shown, %d counted, want %d; %d are left", st.Dropped[ledger.DroppedUnreadable], counted.dropped[ledger.DroppedUnreadable], c.lost, len(st.Journal))
			}
		})
	}
}

// If the memory exceeds all bounds and no event is pending, there is nothing to drop.
func TestAMemoryAboveAllBoundsIsWritten(t *testing.T) {
	s := store.New()
	l := ledger.New(s, everyone{"a"}, &counts{})
	for range 2 {
		must(t, l.Journal(context.Background(), cart, func(*v1alpha1.CDEventSubject) (*ledger.Change, error) {
			return &ledger.Change{Memory: lifecycle.Memory{URLs: []string{strings.Repeat("u", 1100<<10)}}}, nil
		}))
	}
	if s.Writes() != 2 {
		t.Errorf("%d writes", s.Writes())
	}
}

// If thousands of events are pending for a name, they are returned a part at a time.
func TestWhatIsOwedComesInParts(t *testing.T) {
	s := store.New()
	l := ledger.New(s, everyone{"a"}, &counts{})
	const all = 150
	for range all {
		must(t, add(l, lifecycle.Upgraded, ""))
	}
	next, rounds := int64(1), 0
	for owed := l.Pending(key, "a"); len(owed) > 0; owed = l.Pending(key, "a") {
		for _, o := range owed {
			if o.Transition.Sequence != next {
				t.Fatalf("%d came, want %d", o.Transition.Sequence, next)
			}
			l.Acknowledge(o.Name, "a", next)
			next++
		}
		rounds++
	}
	if next != all+1 || rounds < 2 {
		t.Errorf("up to %d in %d rounds", next-1, rounds)
	}
}

// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// refusing refuses every event to its source.
type refusing struct{ everyone }

func (r refusing) Recipients(v1alpha1.CDEventSubjectSpec, ledger.Labels, lifecycle.Transition) []ledger.Recipient {
	return []ledger.Recipient{{
		Source: r.everyone[0], Refused: &ledger.Refusal{Reason: ledger.DroppedSelectorInvalid, Err: errors.New("invalid")},
	}}
}

// once fails the next request, before or after it is done.
func once(s *store.Store, done bool) {
	fail := func(verb, _ string) error {
		s.Before, s.After = nil, nil
		return apierrors.NewTimeoutError(verb, 1)
	}
	if done {
		s.After = fail
		return
	}
	s.Before = fail
}

// Events are given up with a write whose answer is lost. The metric counts them once, whether it was done or not, and
// whoever shows that first.
func TestWhatIsGivenUpIsCountedIfTheAnswerIsLost(t *testing.T) {
	shown := map[string]func(*store.Store, *ledger.Ledger){
		"by the next write": func(*store.Store, *ledger.Ledger) {},
		"by the informer": func(s *store.Store, l *ledger.Ledger) {
			for _, o := range s.All() {
				l.Observe(o)
			}
		},
		"after another leader has written": func(s *store.Store, _ *ledger.Ledger) {
			other, _ := queued(s, everyone{"b"}, &counts{})
			for _, o := range s.All() {
				other.Observe(o)
			}
			_ = add(other, lifecycle.Published, "another's")
		},
	}
	for name, show := range shown {
		for _, done := range []bool{true, false} {
			s, c := store.New(), &counts{}
			l, _ := queued(s, refusing{everyone{"a"}}, c)
			for range 2 { // one creates the entry, one updates it
				want := c.dropped[ledger.DroppedSelectorInvalid] + 1
				once(s, done)
				if err := addOnce(l, lifecycle.Upgraded); err == nil {
					t.Fatal("the answer is not lost")
				}
				show(s, l)
				must(t, addOnce(l, lifecycle.Upgraded))
				if got := c.dropped[ledger.DroppedSelectorInvalid]; got != want {
					t.Errorf("shown %s, done %v: %d events are counted, want %d", name, done, got, want)
				}
				tick = tick.Add(time.Second)
			}
		}
	}
}

// tick is the time of the next transition of addOnce.
var tick = noon

// addOnce journals a transition, unless the entry has it: as an observer does that repeats a write.
func addOnce(l *ledger.Ledger, typ lifecycle.Type) error {
	at := tick
	return l.Journal(context.Background(), cart, func(current *v1alpha1.CDEventSubject) (*ledger.Change, error) {
		var sequence int64 = 1
		if current != nil {
			past, err := current.Status.PastTransitions()
			if err != nil {
				return nil, err
			}
			for _, p := range past {
				if p.Time.Time.Equal(at) {
					return nil, nil //nolint:nilnil // it is journaled
				}
			}
			sequence += current.Status.Sequence
		}
		return &ledger.Change{Memory: lifecycle.Memory{Sequence: sequence}, Transitions: []lifecycle.Transition{{Sequence: sequence, Time: at, Type: typ}}}, nil
	})
}

// As above, with events that are given up because the journal is full.
func TestFullJournalIsCountedIfTheAnswerIsLost(t *testing.T) {
	for _, done := range []bool{true, false} {
		s, c := store.New(), &counts{}
		l, _ := queued(s, everyone{"a"}, c)
		for range 40 {
			once(s, done)
			if err := add(l, lifecycle.Upgraded, strings.Repeat("x", 40<<10)); err == nil {
				t.Fatal("the answer is not lost")
			}
			must(t, l.Journal(context.Background(), cart, func(*v1alpha1.CDEventSubject) (*ledger.Change, error) { return nil, nil })) //nolint:nilnil // it observes
			must(t, add(l, lifecycle.Upgraded, strings.Repeat("x", 40<<10)))
		}
		if lost := s.Peek(ledger.Name(cart)).Status.Dropped[ledger.DroppedJournalFull]; lost == 0 || c.dropped[ledger.DroppedJournalFull] != lost {
			t.Errorf("done %v: %d events are counted, want %d", done, c.dropped[ledger.DroppedJournalFull], lost)
		}
	}
}

// An object is created and deleted while no write is answered. What is kept of it goes, too.
func TestWriteThatIsNeverAnsweredIsForgotten(t *testing.T) {
	s := store.New()
	l, _ := queued(s, refusing{everyone{"a"}}, &counts{})
	once(s, false)
	if err := addOnce(l, lifecycle.Upgraded); err == nil {
		t.Fatal("the answer is not lost")
	}
	for i := range 3 {
		must(t, l.Collect(context.Background(), noon.Add(time.Duration(i)*time.Hour), time.Minute))
	}
	if got := l.Keys(); len(got) > 0 {
		t.Errorf("the ledger keeps %v", got)
	}
}

// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

func TestReplayOncePerSource(t *testing.T) {
	s := store.New()
	all := everyone{"a"}
	l := ledger.New(s, &all, &counts{})
	must(t, add(l, lifecycle.Created, ""))
	labels := func() ledger.Labels { return ledger.Labels{} }
	due := func() []types.UID { return l.Replays(l.Subjects(key)[0], labels) }
	if got := due(); len(got) != 1 {
		t.Fatalf("replays for %v", got)
	}
	must(t, add(l, lifecycle.Deployed, ""))
	if got := due(); len(got) != 0 {
		t.Errorf("replays for sources that received the original event: %v", got)
	}
	all = everyone{"a", "b"}
	if got := due(); len(got) != 1 || got[0] != "b" {
		t.Fatalf("replays for %v, want b", got)
	}
	must(t, l.Journal(context.Background(), cart, func(*v1alpha1.CDEventSubject) (*ledger.Change, error) {
		t := lifecycle.Transition{Sequence: 3, Time: noon, Type: lifecycle.Deployed, Reason: lifecycle.ReasonReplay}
		return &ledger.Change{Memory: lifecycle.Memory{Sequence: 3}, Transitions: []lifecycle.Transition{t}, Replay: due()}, nil
	}))
	if got := sequences(l.Pending(key, "a")); got != "1 2" {
		t.Errorf("pending for a: %s", got)
	}
	if got := l.Pending(key, "b"); len(got) != 1 || got[0].Profile.Replay != "b" || len(due()) != 0 {
		t.Errorf("pending for b: %+v; replays for %v", got, due())
	}
}

// lagging is a router whose cache does not have all sources yet.
type lagging struct{ *everyone }

func (l *lagging) replayed(t *testing.T, s *store.Store, to ...types.UID) {
	t.Helper()
	books := ledger.New(s, l, &counts{})
	for _, o := range s.All() {
		books.Observe(o)
	}
	must(t, add(books, lifecycle.Deployed, ""))
	*l.everyone = to
	if got := books.Replays(books.Subjects(key)[0], func() ledger.Labels { return ledger.Labels{} }); len(got) != 0 {
		t.Errorf("%v receive the present state again", got)
	}
}

// Another leader has told the present state to sources that this process does not know yet.
func TestReplayIsRememberedOfSourcesThatAreNotKnownYet(t *testing.T) {
	s := store.New()
	first := lagging{&everyone{"a", "b"}}
	first.replayed(t, s, "a", "b")
	second := lagging{&everyone{"a"}}
	second.replayed(t, s, "a", "b")
}

// Sources that come and go leave nothing behind that grows.
func TestReplaysToDeletedSourcesAreForgotten(t *testing.T) {
	s := store.New()
	sources := everyone{}
	l := ledger.New(s, &sources, &counts{})
	for i := range 100 {
		sources = everyone{"first", types.UID(fmt.Sprint(i))}
		must(t, add(l, lifecycle.Deployed, ""))
	}
	got := s.All()[0].Status.Replayed
	if len(got) > 20 || got[0] != "first" || got[len(got)-1] != "99" {
		t.Errorf("%d sources are remembered: %v", len(got), got)
	}
}

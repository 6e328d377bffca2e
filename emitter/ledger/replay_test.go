// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
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

// SPDX-License-Identifier: Apache-2.0

package route

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// tally implements ledger.Metrics. It counts dropped events by reason.
type tally map[string]int64

func (tally) Conflict()                        {}
func (tally) Refused()                         {}
func (c tally) Dropped(reason string, n int64) { c[reason] += n }

// refusals are the sources that the subject's events were refused to, by ledger.DroppedSelectorInvalid.
type refusals struct {
	t       *testing.T
	sources []types.UID
}

func (*refusals) Enqueue(ledger.Key, types.UID)   {}
func (*refusals) LeftOut(ledger.Key, []types.UID) {}

func (r *refusals) Refused(key ledger.Key, source types.UID, why ledger.Refusal) {
	if key != ledger.KeyOf(subject) || why.Reason != ledger.DroppedSelectorInvalid {
		r.t.Errorf("called with %v, %v", key, why)
	}
	r.sources = append(r.sources, source)
}

// A refusal counts once for each journaled event: not for each attempt to write it, and not if
// the event is a replay for another source.
func TestRefusalCountsOnce(t *testing.T) {
	s := sourceNamed("long")
	s.Spec.Selector = notIn(20_000)
	entries, counted := store.New(), tally{}
	behind, ahead := ledger.New(entries, router(s), counted), ledger.New(entries, router(s), counted)
	reported := &refusals{t: t}
	behind.UseDelivery(reported)
	ahead.UseDelivery(reported)
	journal := func(l *ledger.Ledger, sequence int64, replay ...types.UID) {
		t.Helper()
		err := l.Journal(t.Context(), subject, func(*v1alpha1.CDEventSubject) (*ledger.Change, error) {
			transition := lifecycle.Transition{Sequence: sequence, Time: noon, Type: lifecycle.Created}
			return &ledger.Change{Memory: lifecycle.Memory{Sequence: sequence}, Replay: replay, Transitions: []lifecycle.Transition{transition}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	journal(behind, 1)
	ahead.Observe(entries.All()[0])
	journal(ahead, 2)
	journal(behind, 3) // conflicts first
	journal(behind, 4, "another")
	if got := counted[ledger.DroppedSelectorInvalid]; got != 3 || len(reported.sources) != 3 || reported.sources[0] != s.UID {
		t.Errorf("%d refusals counted and reported for %v, want three", got, reported.sources)
	}
}

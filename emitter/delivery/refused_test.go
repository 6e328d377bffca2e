package delivery

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// tally is ledger.Metrics that counts by reason.
type tally map[string]int64

func (tally) Conflict()                        {}
func (tally) Refused()                         {}
func (c tally) Dropped(reason string, n int64) { c[reason] += n }

// What is refused counts once for each event that was journaled: not for each try of the
// write, and not where only another source is told.
func TestARefusalCountsOnce(t *testing.T) {
	s := sourceTo("long", "sink")
	s.Spec.Selector = notIn(20_000)
	entries, counted := store.New(), tally{}
	behind, ahead := ledger.New(entries, router(s), counted), ledger.New(entries, router(s), counted)
	var told []types.UID
	for _, l := range []*ledger.Ledger{behind, ahead} {
		l.OnRefused(func(key ledger.Key, source types.UID, why ledger.Refusal) {
			if key != ledger.KeyOf(subject) || why.Reason != ledger.DroppedSelectorInvalid {
				t.Errorf("told of %v, %v", key, why)
			}
			told = append(told, source)
		})
	}
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
	journal(behind, 3) // meets a conflict first
	journal(behind, 4, "another")
	if got := counted[ledger.DroppedSelectorInvalid]; got != 3 || len(told) != 3 || told[0] != s.UID {
		t.Errorf("%d are counted of three events, told %v", got, told)
	}
}

package ledger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// shifts journals many steps of traffic in one write, each with a reason of that many
// bytes.
func shifts(t *testing.T, l *ledger.Ledger, n, size int) {
	t.Helper()
	must(t, l.Journal(context.Background(), cart, func(current *v1alpha1.CDEventSubject) (*ledger.Change, error) {
		var m lifecycle.Memory
		if current != nil {
			must(t, json.Unmarshal(current.Status.Memory.Raw, &m))
		}
		c := &ledger.Change{}
		for range n {
			m.Sequence++
			c.Transitions = append(c.Transitions, lifecycle.Transition{
				Sequence: m.Sequence, Time: noon.Add(time.Duration(m.Sequence) * time.Second),
				Type: lifecycle.TrafficShifted, Reason: strings.Repeat("x", size),
			})
		}
		c.Memory = m
		return c, nil
	}))
}

// What one write brings, and only a tenant wants, takes nothing of the operator's half.
func TestOneWriteLeavesTheOperatorItsHalf(t *testing.T) {
	s := store.New()
	c := &counts{}
	l := ledger.New(s, byType{everyone{"tenant", "operator"}}, c)
	for range 10 { // 200 KiB: within its half
		must(t, add(l, lifecycle.Upgraded, strings.Repeat("x", 20<<10)))
	}
	shifts(t, l, 256, 2<<10)
	if size := written(t, s); size > maxWritten {
		t.Errorf("%d bytes", size)
	}
	if got := sequences(l.Pending(key, "operator")); got != "1 2 3 4 5 6 7 8 9 10" {
		t.Errorf("the operator is owed %q", got)
	}
	owed := strings.Fields(journaled(s, "tenant"))
	if len(owed) < 100 || owed[len(owed)-1] != "266" {
		t.Errorf("the tenant is owed %q", owed)
	}
	if lost := s.All()[0].Status.Dropped[ledger.DroppedJournalFull]; lost != int64(256-len(owed)) || lost != c.dropped[ledger.DroppedJournalFull] {
		t.Errorf("%d shown, %d counted", lost, c.dropped[ledger.DroppedJournalFull])
	}
}

// One write is within the bound as well where nothing is owed from before. The newest event
// is kept, even where it is larger than half of the room.
func TestOneWriteIsWithinTheBound(t *testing.T) {
	for name, sources := range map[string]everyone{
		"operator": {"operator"}, "tenant": {"tenant-00"}, "both": {"operator", "tenant-00"},
	} {
		for size, n := range map[int]int{4 << 10: 256, 300 << 10: 3} {
			s := store.New()
			l := ledger.New(s, sources, &counts{})
			shifts(t, l, n, size)
			if size := written(t, s); size > maxWritten {
				t.Errorf("%s: %d bytes", name, size)
			}
			for _, source := range sources {
				if got := journaled(s, source); !strings.HasSuffix(" "+got, fmt.Sprintf(" %d", n)) {
					t.Errorf("%s: %s is owed %q", name, source, got)
				}
			}
		}
	}
}

// journaled are the numbers of the events that stand in the journal for a source.
func journaled(s *store.Store, source types.UID) string {
	var out []string
	for _, j := range s.All()[0].Status.Journal {
		if slices.ContainsFunc(j.Recipients, func(r v1alpha1.Recipient) bool { return r.Source == source }) {
			out = append(out, fmt.Sprint(j.Sequence))
		}
	}
	return strings.Join(out, " ")
}

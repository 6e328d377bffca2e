// SPDX-License-Identifier: Apache-2.0

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

// shifts journals n traffic steps in one write, each with a reason of size bytes.
func shifts(t *testing.T, l *ledger.Ledger, n, size int) {
	t.Helper()
	must(t, l.Journal(context.Background(), cart, func(current *v1alpha1.CDEventSubject) (*ledger.Change, error) {
		var m lifecycle.Memory
		if current != nil {
			must(t, json.Unmarshal([]byte(current.Status.Memory), &m))
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

// One large write with events for a tenant takes no room from the operator's half.
func TestOneWriteLeavesTheOperatorItsHalf(t *testing.T) {
	s := store.New()
	c := &counts{}
	l := ledger.New(s, byType{everyone{"tenant", "operator"}}, c)
	for range 10 { // 200 KiB: within the operator's half
		must(t, add(l, lifecycle.Upgraded, strings.Repeat("x", 20<<10)))
	}
	shifts(t, l, 256, 2<<10)
	if size := written(t, s); size > maxWritten {
		t.Errorf("the object has %d bytes", size)
	}
	if got := sequences(l.Pending(key, "operator")); got != "1 2 3 4 5 6 7 8 9 10" {
		t.Errorf("pending for the operator: %q", got)
	}
	pending := strings.Fields(journaled(s, "tenant"))
	if len(pending) < 100 || pending[len(pending)-1] != "266" {
		t.Errorf("pending for the tenant: %q", pending)
	}
	if lost := s.All()[0].Status.Dropped[ledger.DroppedJournalFull]; lost != int64(256-len(pending)) || lost != c.dropped[ledger.DroppedJournalFull] {
		t.Errorf("dropped %d in the status, %d in the metric", lost, c.dropped[ledger.DroppedJournalFull])
	}
}

// One large write stays within the limit even into an empty journal. The newest event is kept,
// even if it is larger than half of the journal.
func TestOneWriteStaysWithinTheLimit(t *testing.T) {
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
					t.Errorf("%s: pending for %s: %q", name, source, got)
				}
			}
		}
	}
}

// journaled returns the sequence numbers of a source's events in the journal.
func journaled(s *store.Store, source types.UID) string {
	var out []string
	for _, j := range s.All()[0].Status.Journal {
		if slices.ContainsFunc(j.Recipients, func(r v1alpha1.Recipient) bool { return r.Source == source }) {
			out = append(out, fmt.Sprint(j.Sequence))
		}
	}
	return strings.Join(out, " ")
}

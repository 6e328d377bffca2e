package ledger

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// The bounds of an entry, in bytes of JSON: of all that is written. etcd refuses
// objects above 1.5 MiB.
const (
	// maxJournal is where what is furthest behind gives way.
	maxJournal = 512 << 10
	// maxForms is for the forms that new events are rendered in. Sources write them.
	maxForms = maxJournal / 2
	// maxObject is where even the newest event of the operator's sources or of the
	// tenants' gives way. Only a memory or an event of extreme size leads there.
	maxObject = 1 << 20
)

// weigh is the size of v as it is written.
func weigh(v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		return 0 // the write itself fails then, and says so
	}
	return len(b) + len(",")
}

// bound keeps the entry below its limit. Recipient by recipient, what is furthest
// behind gives way: a sink that is dead costs the others nothing, and the sources of a
// tenant cost the operator's nothing, however much one write brings.
func (e *edit) bound(operator func(types.UID) bool) {
	st := &e.next.Status
	for size := weigh(e.next); size > maxJournal; size = weigh(e.next) {
		h, given := holdingsOf(st, remembered(operator)), 1
		for size > maxJournal && given > 0 {
			old := slices.IndexFunc(st.Journal, func(j v1alpha1.JournalEntry) bool { return j.Sequence > e.before })
			if old < 0 {
				old = len(st.Journal)
			}
			var shrunk int
			if shrunk, given = h.giveWay(old, size > maxObject); given > 0 {
				size -= shrunk
				e.lost[DroppedJournalFull] += int64(given)
			}
		}
		if given == 0 {
			break
		}
	}
	for reason, n := range e.lost {
		if st.Dropped == nil {
			st.Dropped = map[string]int64{}
		}
		st.Dropped[reason] += n
	}
}

// remembered asks once of each source.
func remembered(operator func(types.UID) bool) func(types.UID) bool {
	known := map[types.UID]bool{}
	return func(source types.UID) bool {
		is, ok := known[source]
		if !ok {
			is = operator(source)
			known[source] = is
		}
		return is
	}
}

// forms are those that the events of a journal are rendered in.
func forms(journal []v1alpha1.JournalEntry) map[string]bool {
	used := map[string]bool{}
	for _, j := range journal {
		for _, r := range j.Recipients {
			used[r.Profile] = true
		}
	}
	return used
}

// leaveOut bounds the forms that new events are rendered in: of too many, those go
// first whose sources come last (Recipient.Rank), for all events of this write alike.
func (e *edit) leaveOut(all [][]Recipient) error {
	ranks, weights, total := map[string]int{}, map[string]int{}, 0
	names := make([][]string, len(all))
	for i, recipients := range all {
		for _, r := range recipients {
			name, err := profileName(r.Profile)
			if err != nil {
				return err
			}
			names[i] = append(names[i], name)
			if _, ok := ranks[name]; !ok {
				ranks[name], weights[name] = r.Rank, weigh(map[string]v1alpha1.Profile{name: r.Profile})
				total += weights[name]
			}
			ranks[name] = min(ranks[name], r.Rank)
		}
	}
	if total <= maxForms {
		return nil
	}
	order := slices.SortedFunc(maps.Keys(ranks), func(a, b string) int {
		return cmp.Or(cmp.Compare(ranks[a], ranks[b]), cmp.Compare(a, b))
	})
	out := map[string]bool{}
	for _, name := range slices.Backward(order[1:]) {
		if total <= maxForms {
			break
		}
		out[name], total = true, total-weights[name]
	}
	for i, recipients := range all {
		kept := recipients[:0:0]
		for n, r := range recipients {
			if !out[names[i][n]] {
				kept = append(kept, r)
				continue
			}
			e.lost[DroppedJournalFull]++
			if !slices.Contains(e.leftOut, r.Source) {
				e.leftOut = append(e.leftOut, r.Source)
			}
		}
		all[i] = kept
	}
	return nil
}

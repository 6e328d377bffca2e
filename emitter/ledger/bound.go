package ledger

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// The bounds of a CDEventSubject, in bytes of JSON. etcd refuses objects above 1.5 MiB.
const (
	// maxJournal is the size above which events are dropped.
	maxJournal = 512 << 10
	// maxForms bounds the profiles that new events are rendered with. Users write them.
	maxForms = maxJournal / 2
	// maxObject is the size above which even the newest events are dropped. Only a memory
	// or an event of extreme size leads there.
	maxObject = 1 << 20
)

// weigh is the size of v as it is written.
func weigh(v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		return 0 // the write fails, and reports it
	}
	return len(b) + len(",")
}

// bound keeps the CDEventSubject below its limit. It drops events recipient by recipient,
// furthest behind first. So a dead sink costs the others nothing, and a tenant's sources cost
// the operator's nothing, however much one write adds.
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

// remembered calls a function once for each source.
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

// forms are the profiles that the events of a journal are rendered with.
func forms(journal []v1alpha1.JournalEntry) map[string]bool {
	used := map[string]bool{}
	for _, j := range journal {
		for _, r := range j.Recipients {
			used[r.Profile] = true
		}
	}
	return used
}

// leaveOut bounds the profiles that new events are rendered with. If they are too many, it
// leaves out those of the sources with the highest Recipient.Rank, for all events of this
// write.
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

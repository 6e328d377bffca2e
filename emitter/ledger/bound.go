package ledger

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/reconciler/lifecycle"
)

// The bounds of an entry, in bytes of JSON: of all that is written. etcd refuses
// objects above 1.5 MiB.
const (
	// maxJournal is where what is furthest behind gives way.
	maxJournal = 512 << 10
	// maxForms is for the forms that new events are rendered in. Sources write them.
	maxForms = maxJournal / 2
	// maxObject is where even what is new gives way, so that the rest can be written.
	// Only a memory of extreme size leads there.
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
// behind gives way: a sink that is dead costs the others nothing.
func (e *edit) bound() {
	st := &e.next.Status
	size := weigh(e.next)
	for size > maxJournal {
		old := slices.IndexFunc(st.Journal, func(j v1alpha1.JournalEntry) bool { return j.Sequence > e.before })
		if old < 0 {
			old = len(st.Journal)
		}
		if size > maxObject {
			old = max(old, len(st.Journal)-1)
		}
		if old == 0 {
			break
		}
		i := furthestBehind(st.Journal, old)
		size -= weigh(st.Journal[i]) + e.drop(i)
	}
	for reason, n := range e.lost {
		if st.Dropped == nil {
			st.Dropped = map[string]int64{}
		}
		st.Dropped[reason] += n
	}
}

// drop gives up one event for all that are owed it. It returns the size of the forms
// that no other event is rendered in.
func (e *edit) drop(i int) int {
	st := &e.next.Status
	given := st.Journal[i].Recipients
	e.lost[DroppedJournalFull] += int64(len(given))
	st.Journal = slices.Delete(st.Journal, i, i+1)
	used := forms(st.Journal)
	freed := 0
	for _, r := range given {
		if p, ok := st.Profiles[r.Profile]; ok && !used[r.Profile] {
			freed += weigh(map[string]v1alpha1.Profile{r.Profile: p})
			delete(st.Profiles, r.Profile)
		}
	}
	return freed
}

// furthestBehind chooses among the first n events the one to give up: of those whose
// recipients are all furthest behind, a step of traffic first, as the next one says
// where the traffic is now, and then the oldest.
func furthestBehind(journal []v1alpha1.JournalEntry, n int) int {
	// since is the oldest event that a source is owed, and last the newest.
	since, last := map[types.UID]int{}, map[types.UID]int{}
	for i, j := range journal {
		for _, r := range j.Recipients {
			if _, ok := since[r.Source]; !ok {
				since[r.Source] = i
			}
			last[r.Source] = i
		}
	}
	type rank struct {
		// ahead is how far the furthest of its recipients has come.
		ahead int
		said  int
		age   int
	}
	best, chosen := rank{}, -1
	for i, j := range journal[:n] {
		r := rank{age: i}
		if j.Type != string(lifecycle.TrafficShifted) {
			r.said = 1
		}
		for _, to := range j.Recipients {
			r.ahead = max(r.ahead, since[to.Source])
			if last[to.Source] == i {
				r.said = 1 // no later event says it to this one
			}
		}
		if chosen < 0 || cmp.Or(cmp.Compare(r.ahead, best.ahead), cmp.Compare(r.said, best.said), cmp.Compare(r.age, best.age)) < 0 {
			best, chosen = r, i
		}
	}
	return chosen
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

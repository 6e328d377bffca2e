// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// The limits of a CDEventSubject, in bytes of JSON. etcd rejects objects above 1.5 MiB.
const (
	// maxJournal is the size above which events are dropped.
	maxJournal = 512 << 10
	// maxProfiles limits the rendering profiles of new events. Users write them.
	maxProfiles = maxJournal / 2
	// maxObject is the size above which even the newest events are dropped. Only an extremely
	// large memory or event leads there.
	maxObject = 1 << 20
)

// jsonSize returns the size of v as JSON.
func jsonSize(v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		return 0 // the write fails and reports it
	}
	return len(b) + len(",")
}

// bound keeps the CDEventSubject below its limit. Sources that are furthest behind lose
// events first, so a dead sink costs other sources nothing. Tenants' sources cost the
// operator's nothing.
func (e *edit) bound(operator func(types.UID) bool) {
	st := &e.next.Status
	for size := jsonSize(e.next); size > maxJournal; size = jsonSize(e.next) {
		h, given := usageOf(st, cached(operator)), 1
		for size > maxJournal && given > 0 {
			old := slices.IndexFunc(st.Journal, func(j v1alpha1.JournalEntry) bool { return j.Sequence > e.before })
			if old < 0 {
				old = len(st.Journal)
			}
			var shrunk int
			if shrunk, given = h.drop(old, size > maxObject); given > 0 {
				size -= shrunk
				e.lost[DroppedJournalFull] += int64(given)
			}
		}
		if given == 0 {
			break
		}
	}
	e.dropOversized()
	for reason, n := range e.lost {
		if st.Dropped == nil {
			st.Dropped = map[string]int64{}
		}
		st.Dropped[reason] += n
	}
}

// dropOversized drops an event that alone exceeds the bound of the journal, if the object is too large
// for etcd. Otherwise, no later event of its subject could ever be written.
func (e *edit) dropOversized() {
	st := &e.next.Status
	if len(st.Journal) != 1 || jsonSize(st.Journal) <= maxJournal || jsonSize(e.next) <= maxObject {
		return
	}
	e.lost[DroppedJournalFull] += int64(len(st.Journal[0].Recipients))
	st.Journal, st.Profiles = nil, nil
}

// cached calls a function only once for each source.
func cached(operator func(types.UID) bool) func(types.UID) bool {
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

// profilesUsed returns the names of the rendering profiles that a journal uses.
func profilesUsed(journal []v1alpha1.JournalEntry) map[string]bool {
	used := map[string]bool{}
	for _, j := range journal {
		for _, r := range j.Recipients {
			used[r.Profile] = true
		}
	}
	return used
}

// omitLargest limits the rendering profiles of new events. If there are too many, the sources
// with the highest Recipient.Rank do not receive the events of this write.
func (e *edit) omitLargest(all [][]Recipient) error {
	ranks, sizes, total := map[string]int{}, map[string]int{}, 0
	names := make([][]string, len(all))
	for i, recipients := range all {
		for _, r := range recipients {
			name, err := profileName(r.Profile)
			if err != nil {
				return err
			}
			names[i] = append(names[i], name)
			if _, ok := ranks[name]; !ok {
				ranks[name], sizes[name] = r.Rank, jsonSize(map[string]v1alpha1.Profile{name: r.Profile})
				total += sizes[name]
			}
			ranks[name] = min(ranks[name], r.Rank)
		}
	}
	if total <= maxProfiles {
		return nil
	}
	order := slices.SortedFunc(maps.Keys(ranks), func(a, b string) int {
		return cmp.Or(cmp.Compare(ranks[a], ranks[b]), cmp.Compare(a, b))
	})
	out := map[string]bool{}
	for _, name := range slices.Backward(order[1:]) {
		if total <= maxProfiles {
			break
		}
		out[name], total = true, total-sizes[name]
	}
	for i, recipients := range all {
		kept := recipients[:0:0]
		for n, r := range recipients {
			if !out[names[i][n]] {
				kept = append(kept, r)
				continue
			}
			e.lost[DroppedJournalFull]++
			if !slices.Contains(e.omitted, r.Source) {
				e.omitted = append(e.omitted, r.Source)
			}
		}
		all[i] = kept
	}
	return nil
}

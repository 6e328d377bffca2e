// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// usage tracks how much of a journal the operator's and the tenants' sources use.
type usage struct {
	st       *v1alpha1.CDEventSubjectStatus
	operator func(types.UID) bool
	// both is the usage of the operator's sources (true) and of the tenants' (false).
	both map[bool]*groupUsage
	all  *groupUsage
	// entries and profiles are sizes in bytes, by sequence number and by name.
	entries  map[int64]int
	profiles map[string]int
}

// groupUsage is what a group of sources uses: the size in bytes of a journal for this group alone.
type groupUsage struct {
	bytes int
	// entries and profiles count how many recipients need each.
	entries  map[int64]int
	profiles map[string]int
}

func newGroupUsage() *groupUsage {
	return &groupUsage{entries: map[int64]int{}, profiles: map[string]int{}}
}

func usageOf(st *v1alpha1.CDEventSubjectStatus, operator func(types.UID) bool) *usage {
	h := &usage{
		st: st, operator: operator, both: map[bool]*groupUsage{true: newGroupUsage(), false: newGroupUsage()},
		all: newGroupUsage(), entries: map[int64]int{}, profiles: map[string]int{},
	}
	for name, p := range st.Profiles {
		h.profiles[name] = jsonSize(map[string]v1alpha1.Profile{name: p})
	}
	for _, j := range st.Journal {
		h.entries[j.Sequence] = sizeWithoutRecipients(j)
		for _, r := range j.Recipients {
			h.change(j.Sequence, r, 1)
		}
	}
	return h
}

// change adds or removes a recipient of an entry.
func (h *usage) change(sequence int64, r v1alpha1.Recipient, by int) {
	for _, held := range []*groupUsage{h.both[h.operator(r.Source)], h.all} {
		held.change(sequence, r, h.entries[sequence], h.profiles[r.Profile], by)
	}
}

// costs returns about how many bytes each source uses. Shared bytes are divided evenly.
func (h *usage) costs() map[types.UID]int {
	out := map[types.UID]int{}
	for _, j := range h.st.Journal {
		for _, r := range j.Recipients {
			out[r.Source] += len(r.Source) + len(r.Profile) + h.entries[j.Sequence]/len(j.Recipients) +
				h.profiles[r.Profile]/h.all.profiles[r.Profile]
		}
	}
	return out
}

// sizeWithoutRecipients is the size of an entry without its recipients.
func sizeWithoutRecipients(j v1alpha1.JournalEntry) int {
	j.Recipients = nil
	return jsonSize(j)
}

// change adds a recipient of an entry, or removes it.
func (h *groupUsage) change(sequence int64, r v1alpha1.Recipient, entry, profile, by int) {
	if h.entries[sequence] += by; h.entries[sequence] == max(by, 0) {
		h.bytes += by * entry
	}
	if h.profiles[r.Profile] += by; h.profiles[r.Profile] == max(by, 0) {
		h.bytes += by * profile
	}
	h.bytes += by * jsonSize(r)
}

// drop drops one event, and returns the bytes freed and the number of sources that lose it.
// The larger group (the operator's or the tenants' sources) loses events first: one of the
// first n, then a newer one, but not its newest. With all, only the newest event is safe.
func (h *usage) drop(n int, all bool) (shrunk, sources int) {
	heavier := h.both[true].bytes > h.both[false].bytes
	for _, operators := range []bool{heavier, !heavier} {
		for _, end := range []int{n, h.newest(operators)} {
			if shrunk, sources = h.dropFrom(operators, end); sources > 0 {
				return shrunk, sources
			}
		}
	}
	for _, operators := range []bool{heavier, !heavier} {
		if all && sources == 0 {
			shrunk, sources = h.dropFrom(operators, len(h.st.Journal)-1)
		}
	}
	return shrunk, sources
}

// newest returns the index of a group's newest event.
func (h *usage) newest(operators bool) int {
	for i, j := range slices.Backward(h.st.Journal) {
		if slices.ContainsFunc(j.Recipients, func(r v1alpha1.Recipient) bool { return h.operator(r.Source) == operators }) {
			return i
		}
	}
	return 0
}

// dropFrom drops one of the first n events of a group. Only sources that use at least half as
// much as the largest one lose it.
func (h *usage) dropFrom(operators bool, n int) (shrunk, sources int) {
	if n <= 0 {
		return 0, 0 // no event is left to drop
	}
	costs, largest := h.costs(), 0
	for _, j := range h.st.Journal[:n] {
		for _, r := range j.Recipients {
			if h.operator(r.Source) == operators {
				largest = max(largest, costs[r.Source])
			}
		}
	}
	theirs := func(r v1alpha1.Recipient) bool {
		return h.operator(r.Source) == operators && 2*costs[r.Source] >= largest
	}
	i := furthestBehind(h.st.Journal, n, theirs)
	if i < 0 {
		return 0, 0
	}
	before, j := h.all.bytes, &h.st.Journal[i]
	j.Recipients = slices.DeleteFunc(j.Recipients, func(r v1alpha1.Recipient) bool {
		if !theirs(r) {
			return false
		}
		h.change(j.Sequence, r, -1)
		if h.all.profiles[r.Profile] == 0 {
			delete(h.st.Profiles, r.Profile)
		}
		sources++
		return true
	})
	if len(j.Recipients) == 0 {
		h.st.Journal = slices.Delete(h.st.Journal, i, i+1)
	}
	return before - h.all.bytes, sources
}

// furthestBehind chooses which of the first n events to drop: one whose recipients are
// furthest behind, then one that a later event supersedes, then the oldest. It returns -1 if
// there is none.
func furthestBehind(journal []v1alpha1.JournalEntry, n int, theirs func(v1alpha1.Recipient) bool) int {
	// since and last are the oldest and the newest pending event of a source.
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
		// ahead is the position of its most advanced recipient.
		ahead int
		// needed is 1 unless a later event supersedes it.
		needed int
		age    int
	}
	best, chosen := rank{}, -1
	for i, j := range journal[:n] {
		if !slices.ContainsFunc(j.Recipients, theirs) {
			continue
		}
		r := rank{age: i}
		if !lifecycle.Type(j.Type).Superseded() {
			r.needed = 1
		}
		for _, to := range j.Recipients {
			r.ahead = max(r.ahead, since[to.Source])
			if last[to.Source] == i {
				r.needed = 1 // this recipient gets no later event
			}
		}
		if chosen < 0 ||
			cmp.Or(cmp.Compare(r.ahead, best.ahead), cmp.Compare(r.needed, best.needed), cmp.Compare(r.age, best.age)) < 0 {
			best, chosen = r, i
		}
	}
	return chosen
}

// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// The bounds of the updates that are kept of one key until they are folded. Beyond them, the
// oldest are merged, and their steps are not announced one by one.
const (
	// maxHistory is how many updates are kept, and maxHistorySize how many bytes of them.
	maxHistory     = 512
	maxHistorySize = 2 << 20
	// maxStateParts is how many parts the states of one fold may have together. At least
	// minHistory states are kept.
	maxStateParts = 1 << 17
	minHistory    = 16
)

// Part is one of the objects that make up a watched object, as an informer saw it.
type Part struct {
	// Name identifies the part within the watched object: "service", "route",
	// "revision/cart-00001".
	Name string
	// Version is the object's resourceVersion.
	Version string
	// Value is the projection of the object, nil if it is gone. It is never changed, and
	// reflect.DeepEqual can compare it.
	Value any
	// Owner is the UID of the watched object. The root and the parts whose every state
	// counts, such as a Route, have it. It is empty for other parts.
	Owner types.UID
	// Size is about how many bytes the value takes.
	Size int
	// Root marks the watched object itself.
	Root bool
	// Volatile marks a part that no cache holds and that only the leader observes. It is
	// worthless when the lead is lost.
	Volatile bool
	// Floating marks one of several parts that come and go. The absence of a part has no
	// version, so the version as of which all of them are known counts.
	Floating bool
}

// Parts are the parts of a watched object at one moment, by name.
type Parts map[string]Part

type update struct {
	id   uint64
	part Part
	at   time.Time
}

// track is the history of one key: the folded parts, and every update that came after. No
// update is skipped because a write is slow or because the work queue merges keys.
type track struct {
	base    partList
	updates []update
	// serial numbers the updates.
	serial uint64
	// folding says that a fold is in progress. Updates are not merged meanwhile.
	folding bool
	// past holds the UIDs that the root has had, oldest first, as long as parts that
	// belong to one may still arrive.
	past []types.UID
	// behind says what came after an object whose end this process journaled, while updates of it are left; nil if there
	// are none.
	behind *behind
	// held is since when the first update has been waiting for a part, zero if it is not.
	held time.Time
	// unsaved holds memories that are ahead of the ledger, by UID; nil if none is.
	unsaved map[string]unsaved
	// applied holds the updates that led to them, and the parts before these.
	applied *track
	// waiting holds the waits of each UID; nil if there are none.
	waiting map[types.UID]map[lifecycle.Wait]time.Time
	// confirmed is what is known of a state that a write failed for.
	confirmed confirmation
	// filled says that the root came from a cache, so it may be stale.
	filled bool
	// position is the version as of which the base has its floating parts.
	position string
}

func newTrack(position string) *track { return &track{position: position} }

// add appends an update unless it shows nothing new. It returns whether there is something to
// fold, and how many updates were merged to stay within bounds.
func (t *track) add(p Part, at time.Time) (fresh bool, merged int) {
	last, ok := t.last(p.Name)
	if !ok && p.Value == nil || ok && !newer(p.Version, last.Version) && p.Value != nil {
		return false, 0
	}
	if ok && same(last.Value, p.Value) && !p.Floating {
		// Only the version is new: earlier decisions still hold.
		t.bump(p)
		return false, 0
	}
	t.serial++
	t.insert(update{id: t.serial, part: p, at: at})
	if t.folding {
		return true, 0
	}
	merged = excess(t.updates, len(t.base))
	t.merge(merged)
	return true, merged
}

// excess is how many of the oldest updates are beyond the bounds. The newest never is.
func excess(updates []update, parts int) int {
	most, size := min(maxHistory, max(minHistory, maxStateParts/(parts+1))), 0
	for i := len(updates) - 1; i >= 0; i-- {
		size += updates[i].part.Size
		if n := len(updates) - i; n > most || n > 1 && size > maxHistorySize {
			return i + 1
		}
	}
	return 0
}

// insert appends an update. If parts that belong to a root arrived before it, because their
// informer is ahead, the root and its later updates go before them.
func (t *track) insert(u update) {
	t.updates = append(t.updates, u)
	if !u.part.Root || u.part.Value == nil || slices.Contains(t.past, u.part.Owner) {
		return
	}
	t.past = append(t.past, u.part.Owner)
	t.filled = false
	first := slices.IndexFunc(t.updates, func(o update) bool { return !o.part.Root && o.part.Owner == u.part.Owner })
	if first < 0 {
		return
	}
	slices.SortStableFunc(t.updates[first:], func(a, b update) int {
		switch {
		case a.part.Root && !b.part.Root:
			return -1
		case b.part.Root && !a.part.Root:
			return 1
		}
		return 0
	})
}

// forget takes updates before that time into the base, as if they had been folded.
func (t *track) forget(before time.Time) {
	n := 0
	for n < len(t.updates) && t.updates[n].at.Before(before) && !t.folding {
		n++
	}
	t.merge(n)
	t.evictApplied(before)
	t.prune()
}

// tidy says that there is nothing to forget.
func (t *track) tidy() bool {
	return len(t.updates) == 0 && t.applied == nil && len(t.past) <= maxPast && !t.empty()
}

// maxPast is how many UIDs are remembered to which no part of the history belongs. If a part of
// an older one arrives, the API server is asked.
const maxPast = 16

// prune forgets UIDs from long ago.
func (t *track) prune() {
	here := func(uid types.UID) bool {
		for _, p := range t.base {
			if p.Owner == uid {
				return true
			}
		}
		return slices.ContainsFunc(t.updates, func(u update) bool { return u.part.Owner == uid })
	}
	for i := 0; len(t.past) > maxPast && i < len(t.past)-maxPast; {
		if here(t.past[i]) {
			i++
			continue
		}
		t.past = slices.Delete(t.past, i, i+1)
	}
}

// empty says that the caches have nothing of the object any more. Volatile parts end with it.
func (t *track) empty() bool {
	for _, p := range t.base {
		if !p.Volatile {
			return false
		}
	}
	return len(t.updates) == 0
}

// dropVolatile drops volatile parts.
func (t *track) dropVolatile() {
	t.updates = slices.DeleteFunc(t.updates, func(u update) bool { return u.part.Volatile })
	t.base.dropVolatile()
}

// rebase takes a part into the base.
func (t *track) rebase(p Part) {
	t.confirmed = confirmation{}
	if p.Floating {
		t.position = Newest(p.Version, t.position)
	}
	if p.Value == nil {
		t.base.remove(p.Name)
		return
	}
	t.base.set(p)
}

func (t *track) last(name string) (Part, bool) {
	for i := len(t.updates) - 1; i >= 0; i-- {
		if t.updates[i].part.Name == name {
			return t.updates[i].part, true
		}
	}
	return t.base.get(name)
}

// bump sets the version of the newest state of a part.
func (t *track) bump(p Part) {
	for i := len(t.updates) - 1; i >= 0; i-- {
		if t.updates[i].part.Name == p.Name {
			t.updates[i].part.Version = p.Version
			return
		}
	}
	t.base.set(p)
	if t.applied != nil {
		t.applied.bump(p)
	}
}

// fill takes unknown parts from the caches. It is called when the caches are complete, before
// any update is kept. A part that has an update is left alone: the cache may be ahead of the
// updates, and none of them may be skipped.
func (t *track) fill(cached Parts) {
	missing := make([]Part, 0, len(cached))
	for name, p := range cached {
		if _, ok := t.last(name); !ok && p.Value != nil {
			missing = append(missing, p)
			if p.Root {
				t.past, t.filled = append(t.past, p.Owner), true
			}
		}
	}
	t.base.fill(missing)
}

// step is a state to fold.
type step struct {
	State
	// id is that of the update that led to it, 0 for the base.
	id uint64
}

// orphan says that the step is an update of a part whose root is not known yet.
func (s step) orphan(past []types.UID) bool {
	p := s.Changed
	return !p.Root && p.Owner != "" && p.Value != nil && !slices.Contains(past, p.Owner)
}

// steps returns the states to fold: the base, and the state after each update. The base is
// folded each time, because it may have come from the caches, or was folded before this
// process knew what another leader had written.
func (t *track) steps(now time.Time) []step {
	if len(t.updates) > 0 {
		now = t.updates[0].at
	}
	out := make([]step, 0, len(t.updates)+1)
	parts, position := t.base.parts(), t.position
	out = append(out, step{State: State{Parts: parts, At: now, Position: position}})
	for _, u := range t.updates {
		parts = maps.Clone(parts)
		parts[u.part.Name] = u.part
		if u.part.Floating {
			position = Newest(u.part.Version, position)
		}
		out = append(out, step{State: State{Parts: parts, Changed: u.part, At: u.at, Position: position}, id: u.id})
	}
	return out
}

// consume moves updates into the base.
func (t *track) consume(ids map[uint64]bool) {
	if len(ids) == 0 {
		return
	}
	rest := make([]update, 0, len(t.updates)-min(len(ids), len(t.updates)))
	for _, u := range t.updates {
		switch {
		case !ids[u.id]:
			rest = append(rest, u)
		default:
			t.rebase(u.part)
		}
	}
	if len(rest) < len(t.updates) {
		t.held = time.Time{}
	}
	t.updates = rest
}

func same(a, b any) bool { return reflect.DeepEqual(a, b) }

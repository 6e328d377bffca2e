package observer

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// The bounds of what is kept of one key until it is folded. Beyond them, the oldest updates
// are merged: they are not told one by one any more.
const (
	// maxHistory is how many updates are kept, and maxHistorySize how many bytes of them.
	maxHistory     = 512
	maxHistorySize = 2 << 20
	// maxStateParts is how many parts the states of one fold have altogether. At least
	// minHistory states are kept all the same.
	maxStateParts = 1 << 17
	minHistory    = 16
)

// Part is one object that a watched subject is put together from, as an
// informer saw it.
type Part struct {
	// Name tells the parts of a subject apart: "service", "route",
	// "revision/cart-00001".
	Name string
	// Version is the object's resourceVersion.
	Version string
	// Value is the projection of the object, nil when it is gone. It is never
	// changed and can be compared by reflect.DeepEqual.
	Value any
	// Root marks the watched object itself.
	Root bool
	// Owner is the UID of the watched object: of the root its own; of a part
	// whose every state counts, as the Route's, that of the root it belongs to.
	// It is empty for other parts.
	Owner types.UID
	// Volatile marks what no cache holds and only the leader looks at: it is worth
	// nothing when the lead is lost.
	Volatile bool
	// Size is about how many bytes the value takes.
	Size int
	// Floating marks one of several that come and go. That there is none has no version,
	// so that it counts as of which version all of them are known.
	Floating bool
}

// Parts are the parts of a subject at one moment, by name.
type Parts map[string]Part

type update struct {
	id   uint64
	part Part
	at   time.Time
}

// track is the history of one key: the parts up to where it was folded, and
// every update that came after. Nothing is skipped because a write is slow or
// because the work queue merges keys.
type track struct {
	base    Parts
	updates []update
	// serial numbers the updates.
	serial uint64
	// folding says that a fold is under way: nothing is merged meanwhile.
	folding bool
	// past holds the UIDs that the root had, oldest first, as far as parts may still
	// come that belong to one.
	past []types.UID
	// held is since when the first update cannot be folded, zero if it can.
	held time.Time
	// unsaved is the memory of each UID that is ahead of the ledger.
	unsaved map[string]unsaved
	// spent holds the updates that led to it, and the parts before them.
	spent *track
	// waiting is since when something is waited for of each UID.
	waiting map[types.UID]map[lifecycle.Wait]time.Time
	// filled says that the root came from a cache: it may be of the past.
	filled bool
	// position is the version as of which the base has its floating parts.
	position string
}

func newTrack(position string) *track {
	return &track{position: position, base: Parts{}, unsaved: map[string]unsaved{}, waiting: map[types.UID]map[lifecycle.Wait]time.Time{}}
}

// saw appends an update unless it says nothing new. It returns whether there is
// something to fold, and how many updates were merged to stay in bounds.
func (t *track) saw(p Part, at time.Time) (fresh bool, merged int) {
	last, ok := t.last(p.Name)
	if !ok && p.Value == nil || ok && !newer(p.Version, last.Version) && p.Value != nil {
		return false, 0
	}
	if ok && same(last.Value, p.Value) && !p.Floating {
		// Only the version moved on: what was decided still holds.
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

// insert appends an update. A root that comes after parts which belong to it,
// from an informer that is ahead, goes before them, together with what came of
// the root in between.
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

// forget takes what came before that time into the base, as if it had been folded.
func (t *track) forget(before time.Time) {
	n := 0
	for n < len(t.updates) && t.updates[n].at.Before(before) && !t.folding {
		n++
	}
	t.merge(n)
	t.unspend(before)
	t.prune()
}

// maxPast is how many UIDs are remembered that no part of the history belongs to. What
// comes of an older one costs a question to the API server.
const maxPast = 16

// prune forgets UIDs that the object had long ago.
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

// empty says that nothing is left of the object in the caches. What no cache holds
// ends with it.
func (t *track) empty() bool {
	for _, p := range t.base {
		if !p.Volatile {
			return false
		}
	}
	return len(t.updates) == 0
}

// cool forgets what only a leader can know.
func (t *track) cool() {
	t.updates = slices.DeleteFunc(t.updates, func(u update) bool { return u.part.Volatile })
	maps.DeleteFunc(t.base, func(_ string, p Part) bool { return p.Volatile })
}

// rebase takes a part into the base.
func (t *track) rebase(p Part) {
	if p.Floating {
		t.position = Newest(p.Version, t.position)
	}
	if p.Value == nil {
		delete(t.base, p.Name)
		return
	}
	t.base[p.Name] = p
}

func (t *track) last(name string) (Part, bool) {
	for i := len(t.updates) - 1; i >= 0; i-- {
		if t.updates[i].part.Name == name {
			return t.updates[i].part, true
		}
	}
	p, ok := t.base[name]
	return p, ok
}

// bump moves a part's version forward where it stands last.
func (t *track) bump(p Part) {
	for i := len(t.updates) - 1; i >= 0; i-- {
		if t.updates[i].part.Name == p.Name {
			t.updates[i].part.Version = p.Version
			return
		}
	}
	t.base[p.Name] = p
	if t.spent != nil {
		t.spent.bump(p)
	}
}

// fill takes from the caches the parts that nothing is known of. It happens when
// the caches are complete, before any update is kept. A part that an update has
// come for is left alone: the cache may be ahead of the updates, and none of them
// must be skipped.
func (t *track) fill(cached Parts) {
	for name, p := range cached {
		if _, ok := t.last(name); !ok && p.Value != nil {
			t.base[name] = p
			if p.Root {
				t.past, t.filled = append(t.past, p.Owner), true
			}
		}
	}
}

// step is a state to fold.
type step struct {
	State
	// id is that of the update that led to it, 0 for the base.
	id uint64
}

// orphan says that the step is a state of a part whose root is not known yet.
func (s step) orphan(past []types.UID) bool {
	p := s.Changed
	return !p.Root && p.Owner != "" && p.Value != nil && !slices.Contains(past, p.Owner)
}

// steps returns the states to fold: the base, and the state after each update.
// The base is folded each time: it may have come from the caches, and it may
// have been folded when the ledger did not know yet what another leader wrote.
func (t *track) steps(now time.Time) []step {
	if len(t.updates) > 0 {
		now = t.updates[0].at
	}
	out := make([]step, 0, len(t.updates)+1)
	out = append(out, step{State: State{Parts: maps.Clone(t.base), At: now, Position: t.position}})
	parts, position := t.base, t.position
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

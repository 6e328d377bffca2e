package observer

import (
	"maps"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// maxHistory bounds how many unfolded updates are kept of one key.
const maxHistory = 512

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
}

// Parts are the parts of a subject at one moment, by name.
type Parts map[string]Part

type update struct {
	part Part
	at   time.Time
}

// track is the history of one key: the parts up to where it was folded, and
// every update that came after. Nothing is skipped because a write is slow or
// because the work queue merges keys.
type track struct {
	base    Parts
	updates []update
	// held is since when the first update cannot be folded, zero if it can.
	held time.Time
	// unsaved is the memory of each UID that is ahead of the ledger.
	unsaved map[string]unsaved
	// cached says that base was filled from the caches, or need not be.
	cached bool
	// filled says that it was: what it shows may be of the past.
	filled bool
}

func newTrack() *track { return &track{base: Parts{}, unsaved: map[string]unsaved{}} }

// saw appends an update unless it says nothing new. It returns whether there is
// something to fold, and how many updates were merged to stay in bounds.
func (t *track) saw(p Part, at time.Time) (fresh bool, merged int) {
	last, ok := t.last(p.Name)
	if !ok && p.Value == nil || ok && !newer(p.Version, last.Version) && p.Value != nil {
		return false, 0
	}
	if ok && same(last.Value, p.Value) {
		// Only the version moved on: what was decided still holds.
		t.bump(p)
		return false, 0
	}
	t.updates = append(t.updates, update{part: p, at: at})
	if len(t.updates) > maxHistory {
		// The oldest goes into the base, as if it had been folded with the next.
		t.base[t.updates[0].part.Name] = t.updates[0].part
		t.updates = t.updates[1:]
		merged = 1
	}
	return true, merged
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
}

// fill takes from the caches the parts that nothing is known of. It happens when
// leadership begins. A part that an update has come for is left alone: the cache
// may be ahead of the updates, and none of them must be skipped.
func (t *track) fill(cached Parts) {
	t.cached, t.filled = true, true
	for name, p := range cached {
		if _, ok := t.last(name); !ok {
			t.base[name] = p
		}
	}
}

// step is the state of all parts after one update, and when it was seen.
type step struct {
	parts Parts
	at    time.Time
}

// steps returns the states to fold: the base, if nothing has come since, or the
// state after each update.
func (t *track) steps(now time.Time) []step {
	if len(t.updates) == 0 {
		return []step{{parts: maps.Clone(t.base), at: now}}
	}
	parts := maps.Clone(t.base)
	out := make([]step, 0, len(t.updates))
	for _, u := range t.updates {
		parts = maps.Clone(parts)
		parts[u.part.Name] = u.part
		out = append(out, step{parts: parts, at: u.at})
	}
	return out
}

// consume moves the first n updates into the base.
func (t *track) consume(n int) {
	for _, u := range t.updates[:n] {
		if u.part.Value == nil {
			delete(t.base, u.part.Name)
			continue
		}
		t.base[u.part.Name] = u.part
	}
	t.updates = append([]update(nil), t.updates[n:]...)
	t.held = time.Time{}
}

// latest returns all parts as they are now known.
func (t *track) latest() Parts {
	parts := maps.Clone(t.base)
	for _, u := range t.updates {
		parts[u.part.Name] = u.part
	}
	return parts
}

func same(a, b any) bool { return reflect.DeepEqual(a, b) }

// newer compares resourceVersions; those that cannot be compared count as newer.
func newer(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || c > 0
}

// older is true only where both can be compared.
func older(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}

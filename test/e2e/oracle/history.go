// Package oracle finds out what must have been told of Knative Services, and compares it with what was received.
//
// Invariant: it shares no code with the controller. What happened it reads from Serving's own objects, what was
// told from requests as a sink received them, and the rest is what the documentation promises.
package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Split is how traffic is divided, in one form: "shop-00001=90 shop-00002=10".
type Split string

// NewSplit makes it from the percentages of Revisions. One without traffic is no part of it.
func NewSplit(percent map[string]int64) Split {
	var parts []string
	for _, revision := range slices.Sorted(maps.Keys(percent)) {
		if percent[revision] > 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", revision, percent[revision]))
		}
	}
	return Split(strings.Join(parts, " "))
}

// revisions that have a share.
func (s Split) revisions() []string {
	var out []string
	for part := range strings.FieldsSeq(string(s)) {
		name, _, _ := strings.Cut(part, "=")
		out = append(out, name)
	}
	return out
}

// Moment is when a split was effective.
type Moment struct {
	Split Split
	// From is when it became so. Until is when the Route took up another one, which comes into force a little later;
	// zero if it has not.
	From, Until time.Time
}

// Life is what happened to one Service, from its creation to its removal.
type Life struct {
	Name types.NamespacedName
	UID  types.UID
	// Began is when it was first seen.
	Began time.Time
	// Ready is when it was Ready for the first time, Gone when it was removed; zero if that did not happen.
	Ready, Gone time.Time
	// Splits that were effective, in order.
	Splits []Moment
}

func (l Life) String() string { return fmt.Sprintf("%s (%s)", l.Name.Name, l.UID) }

// until is the end of a split, zero if it is effective still.
func (l Life) until(i int) time.Time {
	switch {
	case !l.Splits[i].Until.IsZero():
		return l.Splits[i].Until
	case i+1 < len(l.Splits):
		return l.Splits[i+1].From
	}
	return l.Gone
}

// History is the lives of all Services of a namespace.
type History struct {
	mu    sync.Mutex
	lives map[types.UID]*Life
}

// Lives in the order in which they began.
func (h *History) Lives() []Life {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]Life, 0, len(h.lives))
	for _, l := range h.lives {
		one := *l
		one.Splits = slices.Clone(l.Splits)
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Life) int { return a.Began.Compare(b.Began) })
	return out
}

// Now is the split that a Service has.
func (h *History) Now(name types.NamespacedName) Split {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.lives {
		if n := len(l.Splits); l.Name == name && l.Gone.IsZero() && n > 0 {
			return l.Splits[n-1].Split
		}
	}
	return ""
}

// note changes what is known of a life, which may begin with that.
func (h *History) note(uid types.UID, f func(*Life, time.Time)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	l, ok := h.lives[uid]
	if !ok {
		l = &Life{UID: uid, Began: now}
		h.lives[uid] = l
	}
	f(l, now)
}

// SPDX-License-Identifier: Apache-2.0

// Package oracle determines which events must be sent for Knative Services, and compares them with those received.
//
// Invariant: it shares no code with the controller. It reads what happened from Serving's own objects, and what was
// reported from requests as a sink received them; the rules are those of the documentation.
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

// Split is a traffic split in canonical form: "shop-00001=90 shop-00002=10".
type Split string

// NewSplit creates it from the percentages of Revisions. Revisions without traffic are left out.
func NewSplit(percent map[string]int64) Split {
	var parts []string
	for _, revision := range slices.Sorted(maps.Keys(percent)) {
		if percent[revision] > 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", revision, percent[revision]))
		}
	}
	return Split(strings.Join(parts, " "))
}

// revisions returns those that have a share.
func (s Split) revisions() []string {
	var out []string
	for part := range strings.FieldsSeq(string(s)) {
		name, _, _ := strings.Cut(part, "=")
		out = append(out, name)
	}
	return out
}

// Moment is the time in which a split was effective.
type Moment struct {
	Split Split
	// From is when it took effect. Until is when the Route's spec got another split, which takes effect a little later;
	// zero if there is none.
	From, Until time.Time
}

// Life is the history of one Service, from its creation to its deletion.
type Life struct {
	Name types.NamespacedName
	UID  types.UID
	// Began is when it was first observed.
	Began time.Time
	// Ready is when it first became Ready, and Gone when it was deleted; zero if it did not.
	Ready, Gone time.Time
	// Splits are the effective ones, in order.
	Splits []Moment
}

func (l Life) String() string { return fmt.Sprintf("%s (%s)", l.Name.Name, l.UID) }

// until is the end of a split; zero if it is still effective.
func (l Life) until(i int) time.Time {
	switch {
	case !l.Splits[i].Until.IsZero():
		return l.Splits[i].Until
	case i+1 < len(l.Splits):
		return l.Splits[i+1].From
	}
	return l.Gone
}

// History is the history of all Services in a namespace.
type History struct {
	mu    sync.Mutex
	lives map[types.UID]*Life
}

// Lives returns the Services in order of creation.
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

// Now returns the current split of a Service.
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

// note updates a life, or starts one.
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

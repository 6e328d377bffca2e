// SPDX-License-Identifier: Apache-2.0

package scrape

import (
	"container/heap"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// served is an existing Service.
type served struct {
	key types.NamespacedName
	// loop reads it; nil if this process does not lead for it.
	loop *serviceLoop
	// due is when all its pods are read, and dying when those are that are being deleted, zero for never. looked is when
	// they last were.
	due, dying, looked time.Time
	// unread means that it has to be read once, whether it has pods or not.
	unread bool
	// place in the agenda, negative if it is not there.
	place int
}

// wake makes a Service due that has changed.
func (s *served) wake(now time.Time, interval time.Duration) {
	if s.place < 0 {
		s.due = next(now, interval, s.key)
	}
	if s.dying = s.looked.Add(dyingEvery); s.dying.Before(now) {
		s.dying = now
	}
}

// at is when something is due.
func (s *served) at() time.Time {
	if !s.dying.IsZero() && s.dying.Before(s.due) {
		return s.dying
	}
	return s.due
}

// agenda is a heap of the Services to read, the next one first.
type agenda []*served

// put adds a Service, or moves it to its place.
func (a *agenda) put(s *served) {
	if s.place < 0 {
		heap.Push(a, s)
		return
	}
	heap.Fix(a, s.place)
}

// remove removes a Service, if it is there.
func (a *agenda) remove(s *served) {
	if s.place >= 0 {
		heap.Remove(a, s.place)
	}
	s.dying = time.Time{}
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (a *agenda) Len() int           { return len(*a) }
func (a *agenda) Less(i, j int) bool { return (*a)[i].at().Before((*a)[j].at()) }

// Swap implements heap.Interface.
func (a *agenda) Swap(i, j int) {
	(*a)[i], (*a)[j] = (*a)[j], (*a)[i]
	(*a)[i].place, (*a)[j].place = i, j
}

// Push implements heap.Interface.
func (a *agenda) Push(x any) {
	if s, ok := x.(*served); ok {
		s.place = len(*a)
		*a = append(*a, s)
	}
}

// Pop implements heap.Interface.
func (a *agenda) Pop() any {
	n := len(*a) - 1
	s := (*a)[n]
	(*a)[n], s.place = nil, -1
	*a = (*a)[:n]
	return s
}

// changes collects what was reported until the runner takes it over.
type changes struct {
	mu   sync.Mutex
	some map[types.NamespacedName]bool
	all  bool
	wake chan struct{}
}

func (c *changes) add(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.some == nil {
		c.some = map[types.NamespacedName]bool{}
	}
	c.some[key] = true
	c.tellLocked()
}

func (c *changes) addAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = true
	c.tellLocked()
}

func (c *changes) tellLocked() {
	select {
	case c.cameLocked() <- struct{}{}:
	default:
	}
}

func (c *changes) cameLocked() chan struct{} {
	if c.wake == nil {
		c.wake = make(chan struct{}, 1)
	}
	return c.wake
}

// came has a value if something was reported.
func (c *changes) came() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cameLocked()
}

// take returns what was reported since the last call.
func (c *changes) take() (some map[types.NamespacedName]bool, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	some, all = c.some, c.all
	c.some, c.all = nil, false
	return some, all
}

// SPDX-License-Identifier: Apache-2.0

package doorbell

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"
)

// firstRewake is how long after a wake the same subject is rung again if it still has the same time: the core may have
// found, by its own clock, that nothing was due yet. The delay is doubled up to the interval of the sweep.
const firstRewake = 5 * time.Second

// wake is when a CDEventSubject wants to be looked at.
type wake struct {
	// at is what its annotation says, and due when it is rung next, both in Unix milliseconds; at is zero if it cannot be
	// read.
	at, due int64
	rung    uint8
}

// wakes are the times at which CDEventSubjects want to be looked at. Nothing stores them: the annotations are read
// again at each start. They are the only memory that grows with the cluster, so there is no heap beside the map: all
// are looked at when one is due, which takes a millisecond.
type wakes struct {
	namespace string
	// most is the longest delay between two rings for the same time.
	most time.Duration
	log  *slog.Logger

	mu     sync.Mutex
	byName map[string]wake
	// first is the earliest time at which one may be due.
	first   int64
	changed chan struct{}
}

func newWakes(namespace string, most time.Duration, log *slog.Logger) *wakes {
	return &wakes{
		namespace: namespace, most: most, log: log,
		byName: map[string]wake{}, first: math.MaxInt64, changed: make(chan struct{}, 1),
	}
}

// clear forgets all, because a list of all CDEventSubjects follows.
func (w *wakes) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.byName = map[string]wake{}
}

// see reads the annotation of a CDEventSubject.
func (w *wakes) see(c Change, o *Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := o.Metadata.Name
	text, wants := o.Metadata.Annotations[wakeAnnotation]
	if c == Deleted || !wants {
		delete(w.byName, name)
		return
	}
	var at int64
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		at = t.Add(time.Millisecond - 1).UnixMilli() // never too early
	}
	if known, ok := w.byName[name]; ok && known.at == at {
		return
	}
	if at == 0 {
		w.log.Error("When a CDEventSubject wants to be looked at cannot be read, so the core is rung at once; the "+
			"annotation must be a time in the form of RFC 3339, such as 2026-01-02T15:04:05Z",
			"subject", name, "annotation", wakeAnnotation, "value", text)
	}
	w.byName[name] = wake{at: at, due: at}
	w.first = min(w.first, at)
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// run rings what is due, until the context ends.
func (w *wakes) run(ctx context.Context, ring func(context.Context, Key, Change) error) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		due, wait := w.due(time.Now())
		for _, name := range due {
			// It fails only if the context ends. The annotation is read again at the next start.
			_ = ring(ctx, Key{Subjects, w.namespace, name}, Updated)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-w.changed:
		case <-timer.C:
		}
	}
}

// due returns the CDEventSubjects that are due, and how long to wait for the next.
func (w *wakes) due(now time.Time) (names []string, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first <= now.UnixMilli() {
		w.first = math.MaxInt64
		for name, one := range w.byName {
			if one.due <= now.UnixMilli() {
				names = append(names, name)
				one.due = now.Add(min(w.most, firstRewake<<one.rung)).UnixMilli()
				one.rung = min(one.rung+1, 16)
				w.byName[name] = one
			}
			w.first = min(w.first, one.due)
		}
	}
	// The clock may be set meanwhile.
	return names, time.Duration(min(w.first-now.UnixMilli(), time.Hour.Milliseconds())) * time.Millisecond
}

// len returns how many CDEventSubjects want to be looked at.
func (w *wakes) len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.byName)
}

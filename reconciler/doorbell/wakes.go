// SPDX-License-Identifier: Apache-2.0

package doorbell

import (
	"container/heap"
	"context"
	"log/slog"
	"sync"
	"time"
)

// firstRewake is how long after a wake the same subject is rung again if it still has the same time: the core may have
// found, by its own clock, that nothing was due yet. The delay is doubled up to the interval of the sweep.
const firstRewake = 5 * time.Second

// wake is when a CDEventSubject wants to be looked at.
type wake struct {
	name string
	// at is what its annotation says, and due when it is rung next, both in Unix milliseconds; at is zero if it cannot be
	// read.
	at, due int64
	rung    uint8
	index   int
}

// wakes are the times at which CDEventSubjects want to be looked at. Nothing stores them: the annotations are read
// again at each start.
type wakes struct {
	namespace string
	// most is the longest delay between two rings for the same time.
	most time.Duration
	log  *slog.Logger

	mu      sync.Mutex
	byName  map[string]*wake
	queue   wakeQueue
	changed chan struct{}
}

func newWakes(namespace string, most time.Duration, log *slog.Logger) *wakes {
	return &wakes{namespace: namespace, most: most, log: log, byName: map[string]*wake{}, changed: make(chan struct{}, 1)}
}

// clear forgets all, because a list of all CDEventSubjects follows.
func (w *wakes) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.byName, w.queue = map[string]*wake{}, nil
}

// see reads the annotation of a CDEventSubject.
func (w *wakes) see(c Change, o *Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := o.Metadata.Name
	text, wants := o.Metadata.Annotations[wakeAnnotation]
	known := w.byName[name]
	if c == Deleted || !wants {
		if known != nil {
			heap.Remove(&w.queue, known.index)
			delete(w.byName, name)
		}
		return
	}
	var at int64
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		at = t.Add(time.Millisecond - 1).UnixMilli() // never too early
	}
	if known != nil && known.at == at {
		return
	}
	if at == 0 {
		w.log.Error("When a CDEventSubject wants to be looked at cannot be read, so the core is rung at once; the "+
			"annotation must be a time in the form of RFC 3339, such as 2026-01-02T15:04:05Z",
			"subject", name, "annotation", wakeAnnotation, "value", text)
	}
	if known == nil {
		known = &wake{name: name}
		w.byName[name] = known
		known.at, known.due = at, at
		heap.Push(&w.queue, known)
	} else {
		known.at, known.due, known.rung = at, at, 0
		heap.Fix(&w.queue, known.index)
	}
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
		name, wait := w.next(time.Now())
		if name != "" {
			// It fails only if the context ends. The annotation is read again at the next start.
			_ = ring(ctx, Key{Subjects, w.namespace, name}, Updated)
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-w.changed:
		case <-timer.C:
		}
	}
}

// next returns a CDEventSubject that is due, or how long to wait for one.
func (w *wakes) next(now time.Time) (string, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		return "", time.Hour
	}
	first := w.queue[0]
	if wait := first.due - now.UnixMilli(); wait > 0 {
		// The clock may be set meanwhile.
		return "", time.Duration(min(wait, time.Hour.Milliseconds())) * time.Millisecond
	}
	first.due = now.Add(min(w.most, firstRewake<<first.rung)).UnixMilli()
	first.rung = min(first.rung+1, 16)
	heap.Fix(&w.queue, 0)
	return first.name, 0
}

// len returns how many CDEventSubjects want to be looked at.
func (w *wakes) len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue)
}

// wakeQueue is a heap: first what is due first.
type wakeQueue []*wake

func (q wakeQueue) Len() int           { return len(q) }
func (q wakeQueue) Less(i, j int) bool { return q[i].due < q[j].due }

func (q wakeQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *wakeQueue) Push(x any) {
	w := x.(*wake) //nolint:errcheck // only used here
	w.index = len(*q)
	*q = append(*q, w)
}

func (q *wakeQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return last
}

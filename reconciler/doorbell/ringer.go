// SPDX-License-Identifier: Apache-2.0

package doorbell

import (
	"cmp"
	"container/heap"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// After a failure, a key waits from firstBackoff, doubled each time, to lastBackoff.
	firstBackoff = time.Second
	lastBackoff  = time.Minute
	// When tripAfter keys in a row fail, the core counts as down. It is then tried with one ring at a time, from
	// firstBackoff to lastProbe apart.
	tripAfter = 5
	// patience is how long a change may wait before the core counts as one that does not answer.
	patience  = 10 * time.Minute
	lastProbe = 30 * time.Second
	// mostRetryAfter limits the Retry-After of the core.
	mostRetryAfter = 5 * time.Minute
)

// result is what came of a ring.
type result struct {
	kind resultKind
	// after is how long the core wants to be left alone with this key.
	after time.Duration
	err   error
}

type resultKind string

const (
	answered     resultKind = "answered"
	refused      resultKind = "refused"
	unauthorized resultKind = "unauthorized"
	failed       resultKind = "failed"
)

// waiting is a key with changes that no ring has answered.
type waiting struct {
	Key
	change Change
	// sequence and since are of the first change that is not answered; again and againSince of the first that came
	// while a ring was under way, which may have been too early for it.
	sequence, again   uint64
	since, againSince time.Time
	due               time.Time
	attempts          int
	underway          bool
}

// ringer holds the keys that wait for an answer, and rings them.
type ringer struct {
	ring     func(context.Context, Key, Change) result
	parallel int
	most     int
	log      *slog.Logger

	mu       sync.Mutex
	keys     map[Key]*waiting
	queue    queue
	sequence uint64
	underway int
	// inRow is how many keys have failed since a ring was answered, or one of them had failed before.
	inRow int
	// limit is how many rings may be under way: one after the core was down, then one more with each answer.
	limit int
	// notBefore is when a core that is down may be rung again, and probes how often it was tried.
	notBefore time.Time
	probes    int
	room      chan struct{}

	lastAnswered time.Time
	patience     time.Duration
	results      map[resultKind]uint64

	changed chan struct{}
}

func newRinger(parallel, most int, log *slog.Logger, ring func(context.Context, Key, Change) result) *ringer {
	return &ringer{
		ring: ring, parallel: parallel, most: most, log: log, limit: parallel, patience: patience,
		keys: map[Key]*waiting{}, results: map[resultKind]uint64{},
		room: make(chan struct{}), changed: make(chan struct{}, 1),
	}
}

// Ring has a key rung after now. It blocks while too many keys wait, and then returns an error if the context ends:
// the change is not noted then.
func (r *ringer) Ring(ctx context.Context, key Key, change Change) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.keys[key]
	// The sweep always has room: there is only one.
	for w == nil && len(r.keys) >= r.most && key != Sweep {
		room := r.room
		r.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
		}
		r.mu.Lock()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w = r.keys[key]
	}
	r.sequence++
	now := time.Now()
	switch {
	case w == nil:
		w = &waiting{Key: key, sequence: r.sequence, since: now, due: now}
		r.keys[key] = w
		heap.Push(&r.queue, w)
		r.notify()
	case w.underway && w.again == 0:
		w.again, w.againSince = r.sequence, now
	}
	w.change = change
	return nil
}

// Mark returns a mark after everything that was noted until now.
func (r *ringer) Mark() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sequence
}

// Answered reports whether everything before the mark is answered.
func (r *ringer) Answered(mark uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.keys {
		if w.sequence <= mark {
			return false
		}
	}
	return true
}

// LastAnswered returns when a ring was last answered, zero for never.
func (r *ringer) LastAnswered() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lastAnswered
}

// Answers reports whether the core answers: it has, and nothing waits for too long. Something that it can never do
// counts, too: the controller that stays may be able to.
func (r *ringer) Answers() bool {
	s := r.state()
	return !s.lastAnswered.IsZero() && (s.oldest.IsZero() || time.Since(s.oldest) < r.patience)
}

// notify has Run look at the queue again.
func (r *ringer) notify() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Run rings until the context ends, and then waits for the rings that are under way: they end with the context.
func (r *ringer) Run(ctx context.Context) {
	var rings sync.WaitGroup
	defer rings.Wait()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		w, change, wait := r.next(time.Now())
		if w != nil {
			rings.Go(func() { r.settle(ctx, w, r.ring(ctx, w.Key, change)) })
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-r.changed:
		case <-timer.C:
		}
	}
}

// next returns the key that is to be rung now, or how long to wait for one.
func (r *ringer) next(now time.Time) (*waiting, Change, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	down := r.inRow >= tripAfter
	if len(r.queue) == 0 || r.underway >= r.limit {
		return nil, "", time.Hour // until notified
	}
	w := r.queue[0]
	at := w.due
	if down && r.notBefore.After(at) {
		at = r.notBefore
	}
	if wait := at.Sub(now); wait > 0 {
		return nil, "", wait
	}
	if down {
		w = r.freshest(now)
	}
	heap.Remove(&r.queue, r.queue.index(w))
	w.underway = true
	r.underway++
	return w, w.change, 0
}

// freshest returns the key that has failed least often. While the core seems to be down, it shows best whether it is:
// the others may have failed for reasons of their own.
func (r *ringer) freshest(now time.Time) *waiting {
	best := r.queue[0]
	for _, w := range r.queue {
		if !w.due.After(now) && w.attempts < best.attempts {
			best = w
		}
	}
	return best
}

// settle notes what came of a ring.
func (r *ringer) settle(ctx context.Context, w *waiting, got result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.notify()
	r.underway--
	w.underway = false
	if ctx.Err() != nil && got.kind != answered {
		heap.Push(&r.queue, w) // the process ends, which says nothing of the core
		return
	}
	r.results[got.kind]++
	now := time.Now()
	if got.kind == answered || got.kind == refused {
		if r.inRow >= tripAfter {
			r.log.Info("The core answers again", "waiting", len(r.keys))
		}
		r.inRow, r.probes, r.limit = 0, 0, min(r.limit+1, r.parallel)
		if got.kind == refused {
			r.log.Error("The core says that it can never answer this ring, so it is given up", "key", w.Key, "error", got.err)
		} else {
			r.lastAnswered = now
		}
		r.done(w, now)
		return
	}
	w.attempts++
	w.again = 0 // the next attempt comes after that change, too
	w.due = now.Add(max(backoff(w.attempts, lastBackoff), min(got.after, mostRetryAfter)))
	heap.Push(&r.queue, w)
	if w.attempts&(w.attempts-1) == 0 {
		r.log.Warn("A ring was not answered, and is repeated", "key", w.Key, "attempts", w.attempts, "error", got.err)
	}
	if w.attempts == 1 || r.inRow >= tripAfter {
		r.inRow++
	}
	if r.inRow < tripAfter {
		return
	}
	if r.inRow == tripAfter {
		r.log.Warn("The core does not answer, and is rung more rarely", "waiting", len(r.keys), "error", got.err)
	}
	r.limit = 1
	r.probes++
	r.notBefore = now.Add(max(backoff(r.probes, lastProbe), min(got.after, mostRetryAfter)))
}

// done removes an answered key, or has it rung once more for what changed meanwhile.
func (r *ringer) done(w *waiting, now time.Time) {
	if w.again == 0 {
		delete(r.keys, w.Key)
		close(r.room)
		r.room = make(chan struct{})
		return
	}
	w.sequence, w.since, w.again, w.attempts, w.due = w.again, w.againSince, 0, 0, now
	heap.Push(&r.queue, w)
}

// state is what is shown of a ringer.
type state struct {
	waiting int
	// oldest is since when the oldest change waits, zero if none does.
	oldest, lastAnswered time.Time
	results              map[resultKind]uint64
	down                 bool
}

func (r *ringer) state() state {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := state{
		waiting: len(r.keys), lastAnswered: r.lastAnswered, down: r.inRow >= tripAfter,
		results: map[resultKind]uint64{},
	}
	for _, kind := range []resultKind{answered, refused, unauthorized, failed} {
		s.results[kind] = r.results[kind]
	}
	for _, w := range r.keys {
		if s.oldest.IsZero() || w.since.Before(s.oldest) {
			s.oldest = w.since
		}
	}
	return s
}

// backoff returns how long to wait after so many attempts: doubled each time, and varied by a fifth.
func backoff(attempts int, most time.Duration) time.Duration {
	d := most
	if doubled := attempts - 1; doubled < 16 {
		d = min(most, firstBackoff<<doubled)
	}
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64())) //nolint:gosec // it only spreads load
}

// queue is a heap of keys without a ring under way: first what is due first.
type queue []*waiting

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	if c := q[i].due.Compare(q[j].due); c != 0 {
		return c < 0
	}
	return cmp.Less(q[i].sequence, q[j].sequence)
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q *queue) Push(x any) { *q = append(*q, x.(*waiting)) } //nolint:errcheck // only used here

func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return last
}

func (q queue) index(w *waiting) int {
	for i, other := range q {
		if other == w {
			return i
		}
	}
	return -1
}

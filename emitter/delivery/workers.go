// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"sync"
	"time"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// workers are a Queue: they work on keys in the order in which they were added, and on each key one at a
// time. Workers exist only while there is work: an empty queue costs no goroutine.
type workers struct {
	// most is the largest number of workers at the same time.
	most int
	work Work

	mu     sync.Mutex
	closed bool
	ready  []ledger.Key
	// taken are the keys that are ready or worked on.
	taken map[ledger.Key]phase
	// later are the keys that wait for their time.
	later map[ledger.Key]*alarm
	// busy counts the workers.
	busy    int
	running sync.WaitGroup
}

type phase int

const (
	ready phase = iota
	working
	// workingAndAdded is a key that was added again while it is worked on.
	workingAndAdded
)

// alarm adds a key at its time.
type alarm struct {
	at    time.Time
	timer *time.Timer
}

// Add implements Queue.
func (w *workers) Add(key ledger.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addLocked(key)
}

func (w *workers) addLocked(key ledger.Key) {
	if w.closed {
		return
	}
	if at, ok := w.taken[key]; ok {
		if at == working {
			w.taken[key] = workingAndAdded
		}
		return
	}
	if w.taken == nil {
		w.taken = map[ledger.Key]phase{}
	}
	w.taken[key] = ready
	w.ready = append(w.ready, key)
	if w.busy < w.most {
		w.busy++
		w.running.Go(w.run)
	}
}

// addAfter adds a key after a while, or earlier if an earlier time is set already.
func (w *workers) addAfter(key ledger.Key, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	at := time.Now().Add(wait)
	if set, ok := w.later[key]; ok {
		if !at.Before(set.at) {
			return
		}
		set.timer.Stop()
	}
	if w.later == nil {
		w.later = map[ledger.Key]*alarm{}
	}
	a := &alarm{at: at}
	a.timer = time.AfterFunc(wait, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.later[key] == a {
			delete(w.later, key)
			w.addLocked(key)
		}
	})
	w.later[key] = a
}

func (w *workers) run() {
	for {
		key, ok := w.next()
		if !ok {
			return
		}
		again := w.turn(key)
		if again > 0 {
			w.addAfter(key, again)
		}
		w.done(key)
	}
}

// turn works on a key, and returns after how long to work on it again, 0 for never.
func (w *workers) turn(key ledger.Key) time.Duration {
	if wait := w.work.NotYet(key); wait > 0 {
		return wait
	}
	return w.work.Deliver(key)
}

// next takes the next key. Without one, it ends the worker and returns false.
func (w *workers) next() (ledger.Key, bool) {
	w.mu.Lock()
	if len(w.ready) > 0 && !w.closed {
		defer w.mu.Unlock()
		key := w.ready[0]
		w.ready = w.ready[1:]
		w.taken[key] = working
		return key, true
	}
	w.busy--
	idle := w.idleLocked()
	if idle {
		// A map never shrinks.
		w.ready, w.taken, w.later = nil, nil, nil
	}
	w.mu.Unlock()
	if idle {
		w.work.Rest()
	}
	return ledger.Key{}, false
}

func (w *workers) done(key ledger.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	added := w.taken[key] == workingAndAdded
	if delete(w.taken, key); added {
		w.addLocked(key)
	}
}

// Idle implements Queue.
func (w *workers) Idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.idleLocked()
}

func (w *workers) idleLocked() bool { return w.busy == 0 && len(w.ready) == 0 && len(w.later) == 0 }

// Close implements Queue.
func (w *workers) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed, w.ready = true, nil
	for _, a := range w.later {
		a.timer.Stop()
	}
	w.later = nil
}

// Wait implements Queue.
func (w *workers) Wait() { w.running.Wait() }

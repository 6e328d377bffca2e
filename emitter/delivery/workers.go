package delivery

import (
	"sync"
	"time"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// workers have keys worked on: each by one worker at a time, in the order in which
// they came. A worker is there for as long as there is work, so that a queue
// which is empty costs no goroutine and next to no memory.
type workers struct {
	// most is how many workers there are at the same time.
	most int
	// work returns after how long the key is to be worked on again, 0 for not.
	work func(ledger.Key) time.Duration
	// rest is called when the last worker has ended and nothing is to come.
	rest func()

	mu     sync.Mutex
	closed bool
	ready  []ledger.Key
	// taken are the keys that are ready or worked on, and which of them are worked
	// on while they are to be worked on once more.
	taken   map[ledger.Key]phase
	later   map[ledger.Key]*alarm
	busy    int
	running sync.WaitGroup
}

type phase int

const (
	waiting phase = iota
	worked
	workedAndWanted
)

// alarm adds a key at a time to come.
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
		if at == worked {
			w.taken[key] = workedAndWanted
		}
		return
	}
	if w.taken == nil {
		w.taken = map[ledger.Key]phase{}
	}
	w.taken[key] = waiting
	w.ready = append(w.ready, key)
	if w.busy < w.most {
		w.busy++
		w.running.Go(w.run)
	}
}

// addAfter has a key worked on after a while, or before that if it is to be anyway.
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
		again := w.work(key)
		if again > 0 {
			w.addAfter(key, again)
		}
		w.done(key)
	}
}

// next is what to work on; without any, the worker has ended.
func (w *workers) next() (ledger.Key, bool) {
	w.mu.Lock()
	if len(w.ready) > 0 && !w.closed {
		defer w.mu.Unlock()
		key := w.ready[0]
		w.ready = w.ready[1:]
		w.taken[key] = worked
		return key, true
	}
	w.busy--
	idle := w.idleLocked()
	if idle {
		// A map keeps the room that it once needed.
		w.ready, w.taken, w.later = nil, nil, nil
	}
	w.mu.Unlock()
	if idle && w.rest != nil {
		w.rest()
	}
	return ledger.Key{}, false
}

func (w *workers) done(key ledger.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wanted := w.taken[key] == workedAndWanted
	if delete(w.taken, key); wanted {
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

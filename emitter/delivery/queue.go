package delivery

import (
	"sync"
	"time"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// queue has keys worked on: each by one worker at a time, in the order in which
// they came. A worker is there for as long as there is work, so that a queue
// which is empty costs no goroutine and next to no memory.
type queue struct {
	// most is how many workers there are at the same time; none below 1.
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
	workers int
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

// add has a key worked on now.
func (q *queue) add(key ledger.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(key)
}

func (q *queue) addLocked(key ledger.Key) {
	if q.closed || q.most < 1 {
		return
	}
	if at, ok := q.taken[key]; ok {
		if at == worked {
			q.taken[key] = workedAndWanted
		}
		return
	}
	if q.taken == nil {
		q.taken = map[ledger.Key]phase{}
	}
	q.taken[key] = waiting
	q.ready = append(q.ready, key)
	if q.workers < q.most {
		q.workers++
		q.running.Go(q.run)
	}
}

// addAfter has a key worked on after a while, or before that if it is to be anyway.
func (q *queue) addAfter(key ledger.Key, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.most < 1 {
		return
	}
	at := time.Now().Add(wait)
	if set, ok := q.later[key]; ok {
		if !at.Before(set.at) {
			return
		}
		set.timer.Stop()
	}
	if q.later == nil {
		q.later = map[ledger.Key]*alarm{}
	}
	a := &alarm{at: at}
	a.timer = time.AfterFunc(wait, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.later[key] == a {
			delete(q.later, key)
			q.addLocked(key)
		}
	})
	q.later[key] = a
}

func (q *queue) run() {
	for {
		key, ok := q.next()
		if !ok {
			return
		}
		again := q.work(key)
		if again > 0 {
			q.addAfter(key, again)
		}
		q.done(key)
	}
}

// next is what to work on; without any, the worker has ended.
func (q *queue) next() (ledger.Key, bool) {
	q.mu.Lock()
	if len(q.ready) > 0 && !q.closed {
		defer q.mu.Unlock()
		key := q.ready[0]
		q.ready = q.ready[1:]
		q.taken[key] = worked
		return key, true
	}
	q.workers--
	idle := q.idleLocked()
	if idle {
		// A map keeps the room that it once needed.
		q.ready, q.taken, q.later = nil, nil, nil
	}
	q.mu.Unlock()
	if idle && q.rest != nil {
		q.rest()
	}
	return ledger.Key{}, false
}

func (q *queue) done(key ledger.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	wanted := q.taken[key] == workedAndWanted
	if delete(q.taken, key); wanted {
		q.addLocked(key)
	}
}

// idle says that nothing is worked on, and nothing is to come.
func (q *queue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.idleLocked()
}

func (q *queue) idleLocked() bool { return q.workers == 0 && len(q.ready) == 0 && len(q.later) == 0 }

// close takes nothing more on. What is worked on ends by itself.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.ready = true, nil
	for _, a := range q.later {
		a.timer.Stop()
	}
	q.later = nil
}

// wait returns when all workers have ended, after close.
func (q *queue) wait() { q.running.Wait() }

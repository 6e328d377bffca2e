package delivery

import (
	"context"
	"sync"
)

// ramp bounds how many sends to one sink are under way. A sink that comes back
// gets one event at first, and room for one more with each that it takes, as TCP
// does with a network that it does not know yet (RFC 5681, slow start).
type ramp struct {
	most int

	mu          sync.Mutex
	room        *sync.Cond
	limit, busy int
}

func newRamp(most int) *ramp {
	r := &ramp{most: most, limit: most}
	r.room = sync.NewCond(&r.mu)
	return r
}

// enter waits for room. It returns false when ctx ends before that; else leave
// must be called.
func (r *ramp) enter(ctx context.Context) bool {
	stop := context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.room.Broadcast()
	})
	defer stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.busy >= r.limit && ctx.Err() == nil {
		r.room.Wait()
	}
	if ctx.Err() != nil {
		return false
	}
	r.busy++
	return true
}

// leave gives the room back, and more where the sink has taken an event.
func (r *ramp) leave(taken bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy--
	if taken && r.limit < r.most {
		r.limit++
	}
	r.room.Broadcast()
}

// restart begins anew with one send at a time.
func (r *ramp) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = 1
}

// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"sync"
)

// ramp bounds how many attempts at one sink are under way. A sink that recovers gets one
// event at first, and room for one more with each that it accepts: the slow start of
// TCP (RFC 5681).
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

// enter waits for room. It returns false if ctx ends first; otherwise the caller must
// call leave.
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

// leave frees the room, and widens the ramp if asked to.
func (r *ramp) leave(widen bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy--
	if widen && r.limit < r.most {
		r.limit++
	}
	r.room.Broadcast()
}

// restart goes back to one attempt at a time.
func (r *ramp) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = 1
}

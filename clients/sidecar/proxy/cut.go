// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// cutAfter is how long a client may still take for what it sends, after its visit must end, and then for what it reads.
const cutAfter = time.Second

// cutter sees to it that a visit which must end does: a handler may wait without an end for a client that neither sends
// the rest of its request nor reads the answer. Deadlines of the connection end that.
type cutter struct {
	control *http.ResponseController
	// request ends when the client has gone, or when the handler is not needed any more. The connection may then have
	// another request.
	request context.Context //nolint:containedctx // it belongs to the request
	unwatch func() bool

	mu         sync.Mutex
	timer      *time.Timer
	ended, cut bool
}

// watch begins when a visit does. The caller must call end before the handler returns.
func watch(visit, request context.Context, w http.ResponseWriter) *cutter {
	c := &cutter{control: http.NewResponseController(w), request: request}
	c.unwatch = context.AfterFunc(visit, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.ended && request.Err() == nil {
			c.timer = time.AfterFunc(cutAfter, c.fire)
		}
	})
	return c
}

func (c *cutter) fire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.request.Err() != nil {
		return
	}
	c.cut = true
	_ = c.control.SetReadDeadline(time.Now()) // a writer that cannot do it cannot block either
	_ = c.control.SetWriteDeadline(time.Now().Add(cutAfter))
}

func (c *cutter) end() {
	c.unwatch()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.cut { // the connection may go on
		_ = c.control.SetReadDeadline(time.Time{})
		_ = c.control.SetWriteDeadline(time.Time{})
	}
}

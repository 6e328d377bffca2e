package main

import (
	"context"
	"errors"
	"time"
)

// lastSends is how long the leases are kept for what is being sent when the process
// is told to stop. The others look for a free lease every 4.4 s at the latest
// (retry-period and Knative's jitter), and both together stay below five seconds.
const lastSends = 500 * time.Millisecond

// handover returns the context that everything lives by, the leases too. It outlives
// stopping until what was being sent is acknowledged and noted, so that the next
// leader does not send it again; but no longer than a sink that hangs deserves.
func (p *process) handover() context.Context {
	ctx, end := context.WithCancel(context.WithoutCancel(p.stopping))
	context.AfterFunc(p.stopping, func() {
		defer end()
		if errors.Is(context.Cause(p.stopping), errReverted) {
			return // nothing more must be done with what this process remembers
		}
		select {
		case <-p.noted:
		case <-time.After(lastSends):
		}
	})
	return ctx
}

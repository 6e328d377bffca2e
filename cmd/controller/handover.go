// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"
)

// lastSends is how long the process keeps its leases for requests in flight. The other
// replicas try a lease at least every 4.4 s (retry-period and Knative's jitter), so a
// handover takes less than five seconds.
const lastSends = 500 * time.Millisecond

// handover returns the context of everything, including the leases. It outlives stopping
// until the acknowledgements of requests in flight are written, so that the next leader
// does not send these events again, or until lastSends is over.
func (p *process) handover() context.Context {
	ctx, end := context.WithCancel(context.WithoutCancel(p.stopping))
	context.AfterFunc(p.stopping, func() {
		defer end()
		if errors.Is(context.Cause(p.stopping), errReverted) {
			return // the memory of this process must not be written
		}
		select {
		case <-p.acknowledged:
		case <-time.After(lastSends):
		}
	})
	return ctx
}

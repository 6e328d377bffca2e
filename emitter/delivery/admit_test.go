// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// full is a ledger that has no room for acknowledgements until a test says so.
type full struct {
	*ledger.Ledger
	room    chan struct{}
	waiting atomic.Int64
}

func (f *full) Admit(ctx context.Context, _ string) bool {
	f.waiting.Add(1)
	select {
	case <-f.room:
		return true
	case <-ctx.Done():
		return false
	}
}

// An event whose acknowledgement cannot be held is not sent, and no worker more than those of the source waits.
func TestSendingWaitsForTheLedger(t *testing.T) {
	s := newStage(t, sourceTo("all", "sink"))
	f := &full{Ledger: s.ledger, room: make(chan struct{})}
	s.Ledger = f
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		s.happens(t, name, lifecycle.Created)
	}
	s.eventually(t, "all workers wait", func() bool { return f.waiting.Load() == 4 })
	time.Sleep(50 * time.Millisecond)
	if got := s.received(); len(got) > 0 || f.waiting.Load() != 4 {
		t.Errorf("received %q while %d workers wait", got, f.waiting.Load())
	}
	close(f.room)
	s.eventually(t, "all events are delivered", func() bool { return s.pending("uid-all") == 0 })
}

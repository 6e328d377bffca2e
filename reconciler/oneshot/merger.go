// SPDX-License-Identifier: Apache-2.0

package oneshot

import (
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// merger merges calls for the same Service. What comes during a look may have happened after that look read it, so it
// is answered by the next look; all that come until that begins share it. (singleflight would answer it by the present
// one.) Its zero value is ready.
type merger struct {
	mu      sync.Mutex
	running map[types.NamespacedName]*call
}

type call struct {
	done    chan struct{}
	outcome Outcome
	err     error
	// next is the one after it, nil if nobody asks for one.
	next *call
}

var errEnded = errors.New("the look ended without a result")

func newCall() *call { return &call{done: make(chan struct{}), err: errEnded} }

// do calls f, or waits for somebody else's call that begins later than do.
func (m *merger) do(service types.NamespacedName, f func() (Outcome, error)) (Outcome, error) {
	m.mu.Lock()
	now := m.running[service]
	switch {
	case now == nil:
		now = newCall()
		if m.running == nil {
			m.running = map[types.NamespacedName]*call{}
		}
		m.running[service] = now
		m.mu.Unlock()
		return m.run(service, now, f)
	case now.next == nil:
		next := newCall()
		now.next = next
		m.mu.Unlock()
		<-now.done
		return m.run(service, next, f)
	}
	next := now.next
	m.mu.Unlock()
	<-next.done
	return next.outcome, next.err
}

func (m *merger) run(service types.NamespacedName, now *call, f func() (Outcome, error)) (Outcome, error) {
	defer func() {
		m.mu.Lock()
		if now.next != nil {
			m.running[service] = now.next
		} else {
			delete(m.running, service)
		}
		m.mu.Unlock()
		close(now.done)
	}()
	now.outcome, now.err = f()
	return now.outcome, now.err
}

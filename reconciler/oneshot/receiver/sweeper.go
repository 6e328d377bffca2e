// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"sync"
	"time"
)

// unheardFor is how long the result of a sweep is kept whose sender has not waited for it. A doorbell rings again
// within a minute.
const unheardFor = 2 * time.Minute

// sweeper runs one sweep at a time. Its zero value is ready.
type sweeper struct {
	mu sync.Mutex
	// now is the sweep that runs, or one that has ended and nobody has heard of; nil for none.
	now *sweep
}

type sweep struct {
	began, ended time.Time
	done         chan struct{}
	err          error
	// waiting is how many requests wait for it.
	waiting int
}

// do returns the result of a sweep. One that began before waits for a sender of its own, so do waits for it to end, and
// begins another. If nobody waits for it any more, do takes it.
func (s *sweeper) do(ctx context.Context, begin func(end func(error)) error) error {
	arrived := time.Now()
	for {
		s.mu.Lock()
		now := s.now
		unheard := now != nil && now.waiting == 0 && (now.ended.IsZero() || time.Since(now.ended) < unheardFor)
		switch {
		case now == nil || now.waiting == 0 && !unheard:
			now = &sweep{began: time.Now(), done: make(chan struct{})}
			if err := begin(func(err error) { s.end(now, err) }); err != nil {
				s.mu.Unlock()
				return err
			}
			s.now = now
		case !unheard && !now.began.After(arrived):
			s.mu.Unlock()
			select {
			case <-now.done:
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		now.waiting++
		s.mu.Unlock()
		return s.wait(ctx, now)
	}
}

// end notes the result of a sweep. It is kept if nobody waits.
func (s *sweeper) end(now *sweep, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now.err, now.ended = err, time.Now()
	if now.waiting > 0 {
		s.now = nil
	}
	close(now.done)
}

func (s *sweeper) wait(ctx context.Context, now *sweep) error {
	select {
	case <-now.done:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now.waiting--
	if now.ended.IsZero() {
		return context.Cause(ctx)
	}
	if s.now == now {
		s.now = nil
	}
	return now.err
}

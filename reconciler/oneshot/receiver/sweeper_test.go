// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// sweeps are sweeps that take a minute each.
type sweeps struct {
	sweeper
	begun int
	err   error
}

func (s *sweeps) ring(ctx context.Context) error {
	return s.do(ctx, func(end func(error)) error {
		s.begun++
		go func() { time.Sleep(time.Minute); end(s.err) }()
		return nil
	})
}

func (s *sweeps) within(t *testing.T, d time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return s.ring(ctx)
}

// TestRingsDuringASweep: they are answered by one that began after them, and share it.
func TestRingsDuringASweep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := &sweeps{}, time.Now()
		var all sync.WaitGroup
		for i, want := range []time.Duration{time.Minute, 2 * time.Minute, 2 * time.Minute} {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				if err := s.ring(t.Context()); err != nil || time.Since(began) != want {
					t.Errorf("ring %d was answered after %v: %v", i, time.Since(began), err)
				}
			})
		}
		all.Wait()
		if s.begun != 2 {
			t.Errorf("%d sweeps", s.begun)
		}
	})
}

// TestSweepThatOutlivesItsSender is the answer to the next ring, whether it has ended or not; but not for long.
func TestSweepThatOutlivesItsSender(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &sweeps{}
		if s.within(t, 40*time.Second) == nil {
			t.Error("there is no result yet")
		}
		time.Sleep(time.Second)
		if err := s.within(t, 40*time.Second); err != nil || s.begun != 1 {
			t.Errorf("the next ring: %v after %d sweeps", err, s.begun)
		}
		s.err = errors.New("it failed")
		_ = s.within(t, time.Second)
		time.Sleep(time.Minute)
		if err := s.within(t, time.Second); !errors.Is(err, s.err) || s.begun != 2 {
			t.Errorf("a ring after the end: %v after %d sweeps", err, s.begun)
		}
		s.err = nil
		_ = s.within(t, time.Second)
		time.Sleep(time.Minute + unheardFor)
		if err := s.within(t, 2*time.Minute); err != nil || s.begun != 4 {
			t.Errorf("a ring long after the end: %v after %d sweeps", err, s.begun)
		}
	})
}

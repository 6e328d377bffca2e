// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// churn makes changes and records when the API server committed them.
type churn struct {
	by *cast

	mu      sync.Mutex
	commits []commit
}

// shift changes the n-th Service, counting in a circle.
func (c *churn) shift(ctx context.Context, actors []*actor, n int) error {
	done, err := c.by.shift(ctx, actors[n%len(actors)])
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commits = append(c.commits, done)
	return nil
}

// all returns the changes so far.
func (c *churn) all() []commit {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]commit{}, c.commits...)
}

// correct replaces commit times by the reference's, where those are earlier.
func (c *churn) correct(w *reference) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return w.correct(c.commits)
}

// pace makes n changes at a fixed rate, each at its time, however long the one before takes: the system under test
// must not slow the load down.
func (c *churn) pace(ctx context.Context, actors []*actor, perSecond, n int) error {
	if n > splits*len(actors) {
		return fmt.Errorf("%d changes of %d Services: no Service may have the same split twice", n, len(actors))
	}
	start := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for i := range n {
		select {
		case <-time.After(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(perSecond)))):
		case <-ctx.Done():
			return group.Wait()
		}
		group.Go(func() error { return c.shift(ctx, actors, i) })
	}
	return group.Wait()
}

// burst makes n changes as fast as the API server accepts them from that many writers.
func (c *churn) burst(ctx context.Context, actors []*actor, writers, n int) error {
	if n > splits*len(actors) {
		return fmt.Errorf("%d changes of %d Services: no Service may have the same split twice", n, len(actors))
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return c.shift(ctx, actors, i) })
	}
	return group.Wait()
}

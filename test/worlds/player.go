// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// player plays each world many times.
type player struct {
	runs, parallel int
	seed           uint64
	whole, rivals  bool
}

// row is a world and how its runs ended.
type row struct {
	world
	outcomes []outcome
}

func (p player) play(ctx context.Context, w world) (row, error) {
	r := row{world: w, outcomes: make([]outcome, p.runs)}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, p.parallel))
	for i := range p.runs {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			var err error
			r.outcomes[i], err = p.once(ctx, w, uint64(i)) //nolint:gosec // not negative
			return err
		})
	}
	return r, g.Wait()
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"path/filepath"
	"time"
)

// footprint is the memory of one contestant.
type footprint struct {
	Contestant string
	memory
	Services, Revisions int
}

// memory runs all contestants at once, because they are idle. It measures after they have been idle long enough for Go's
// collector to free what they needed to start.
func (b *bench) memory(ctx context.Context) error {
	if err := b.populate(ctx, b.plan.Crowd); err != nil {
		return err
	}
	// With the ledger of the other scenarios, the new Services would count as created.
	if err := b.forget(ctx); err != nil {
		return err
	}
	if err := rest(ctx, 2*time.Second); err != nil {
		return err
	}
	turns, err := b.startAll(ctx, contestants...)
	defer func() {
		for _, t := range turns {
			t.process.stop()
		}
	}()
	if err != nil {
		return err
	}
	b.say("waiting %v until the programs have settled", b.plan.Settle)
	if err := rest(ctx, b.plan.Settle); err != nil {
		return err
	}
	for _, t := range turns {
		m, err := t.memory()
		if err != nil {
			return err
		}
		b.Memory = append(b.Memory, footprint{t.contestant.Name, m, b.plan.Crowd, b.plan.Crowd * b.plan.Revisions})
		b.say("%s %s resident, %s at most (%s)", t.contestant, mebibytes(m.Resident), mebibytes(m.Peak), filepath.Base(t.process.log))
	}
	return nil
}

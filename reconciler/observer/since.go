// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// BaselineStore stores since when the objects of each kind are announced. ledger.Baselines implements it.
type BaselineStore interface {
	// Since returns the stored time, or stores the present one.
	Since(ctx context.Context, kind string) (time.Time, error)
}

// Baselines says since when the objects of each kind are announced. Older ones are the baseline, of which nothing is
// announced.
type Baselines struct {
	store  BaselineStore
	synced []cache.InformerSynced
}

// NewBaselines returns Baselines that wait until these caches are complete.
func NewBaselines(store BaselineStore, synced ...cache.InformerSynced) *Baselines {
	return &Baselines{store: store, synced: synced}
}

// Since returns a function for Options.Since. It reads the time of a kind once.
func (b *Baselines) Since(kind string) func(context.Context) (time.Time, error) {
	var mu sync.Mutex
	var known time.Time
	return func(ctx context.Context) (time.Time, error) {
		mu.Lock()
		defer mu.Unlock()
		if !known.IsZero() {
			return known, nil
		}
		if !cache.WaitForCacheSync(ctx.Done(), b.synced...) {
			return known, fmt.Errorf("waiting for the caches of the ledger and of sources: %w", context.Cause(ctx))
		}
		at, err := b.store.Since(ctx, kind)
		if err != nil {
			return known, fmt.Errorf("taking the baseline: %w", err)
		}
		known = at
		return known, nil
	}
}

// take reads since when objects of a kind are announced until there is an answer, which the store keeps. An object
// that appears later is then news.
func take(ctx context.Context, since func(context.Context) (time.Time, error)) {
	// ends with an error only with ctx
	_ = wait.PollUntilContextCancel(ctx, retryAfter, true, func(ctx context.Context) (bool, error) {
		_, err := since(ctx)
		return err == nil, nil
	})
}

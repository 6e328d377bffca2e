// SPDX-License-Identifier: Apache-2.0

package scrape

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Limits of all targets of a process together. One Service may use half of them.
const (
	// mostSeries limits the series with a meaning, at some 600 bytes each.
	mostSeries = 300_000
	// mostLines limits the lines without a meaning that are remembered to avoid parsing them again.
	mostLines = 500_000
	// largeBytes limits the bytes read at once beyond the first smallBody of each answer.
	largeBytes = 32 << 20
)

// What each target may use, whatever the others do.
const (
	leastSeries = 256
	leastLines  = 512
	smallBody   = 256 << 10
)

const (
	// chunk is the step by which claims grow.
	chunk = 256
	// largeAtOnce is how many answers of one Service may be large at the same time. largeWithin limits
	// how long the rest of one may take.
	largeAtOnce = 2
	largeWithin = 2 * time.Second
)

// Budget limits the memory of all readings of a process, whatever pods answer.
type Budget struct {
	large *semaphore.Weighted

	mu            sync.Mutex
	series, lines purse
}

// purse is a limit and how much of it is claimed.
type purse struct{ most, claimed int }

// NewBudget returns a Budget without claims.
func NewBudget() *Budget {
	return &Budget{
		large: semaphore.NewWeighted(largeBytes), series: purse{most: mostSeries},
		lines: purse{most: mostLines},
	}
}

// Claimed returns the series and lines that are claimed beyond each target's minimum.
func (b *Budget) Claimed() (series, lines int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.series.claimed, b.lines.claimed
}

// Quota is the part of the Budget that one Service uses.
type Quota struct {
	of            *Budget
	large         chan struct{}
	series, lines int
}

// Quota returns a new Quota.
func (b *Budget) Quota() *Quota { return &Quota{of: b, large: make(chan struct{}, largeAtOnce)} }

// claims of one target. The Budget's lock guards them.
type claims struct {
	quota         *Quota
	series, lines int
	gone          bool
}

// claim sets how many series and lines the target uses in total; the rest is given back. It fails if
// that exceeds the Quota or the Budget.
func (c *claims) claim(series, lines int) bool {
	if c.quota == nil {
		return true
	}
	b := c.quota.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.gone {
		return series <= leastSeries && lines <= leastLines
	}
	return c.set(&b.series, &c.quota.series, &c.series, series-leastSeries) &&
		c.set(&b.lines, &c.quota.lines, &c.lines, lines-leastLines)
}

func (c *claims) set(of *purse, quota, own *int, want int) bool {
	want = (max(0, want) + chunk - 1) / chunk * chunk
	more := want - *own
	if more > 0 && (of.claimed+more > of.most || *quota+more > of.most/2) {
		return false
	}
	of.claimed, *quota, *own = of.claimed+more, *quota+more, want
	return true
}

// release gives everything back for good, because the target is gone.
func (c *claims) release() {
	if c.quota == nil {
		return
	}
	b := c.quota.of
	b.mu.Lock()
	defer b.mu.Unlock()
	c.set(&b.series, &c.quota.series, &c.series, 0)
	c.set(&b.lines, &c.quota.lines, &c.lines, 0)
	c.gone = true
}

// room waits until the rest of an answer of up to most bytes may be read.
func (c *claims) room(ctx context.Context, most int64) (done func(), err error) {
	if c.quota == nil {
		return func() {}, nil
	}
	select {
	case c.quota.large <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err() //nolint:wrapcheck // the caller says what it means
	}
	most = min(most, largeBytes)
	if err := c.quota.of.large.Acquire(ctx, most); err != nil {
		<-c.quota.large
		return nil, err //nolint:wrapcheck // likewise
	}
	return func() {
		c.quota.of.large.Release(most)
		<-c.quota.large
	}, nil
}

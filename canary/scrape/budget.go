package scrape

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// What all targets of a process may have together. One Service may have half of it.
const (
	// mostSeries that mean something are kept, at some 600 bytes each.
	mostSeries = 300_000
	// mostLines that mean nothing are remembered, so that they are not parsed again.
	mostLines = 500_000
	// largeBytes of answers are read at once, beyond the first smallBody of each.
	largeBytes = 32 << 20
)

// What each target may have, whatever the others do.
const (
	leastSeries = 256
	leastLines  = 512
	smallBody   = 256 << 10
)

const (
	// chunk is by how much claims grow.
	chunk = 256
	// largeAtOnce are the answers of one Service that may be large at one moment;
	// largeWithin is how long the rest of one may take.
	largeAtOnce = 2
	largeWithin = 2 * time.Second
)

// Budget bounds what the readings of a process hold together, whatever pods answer.
type Budget struct {
	large *semaphore.Weighted

	mu            sync.Mutex
	series, lines purse
}

// purse is how many there are to claim, and how many of them are claimed.
type purse struct{ most, claimed int }

// NewBudget returns one of which nothing is claimed.
func NewBudget() *Budget {
	return &Budget{large: semaphore.NewWeighted(largeBytes), series: purse{most: mostSeries}, lines: purse{most: mostLines}}
}

// Claimed is how many series and lines are claimed now, beyond what each target has anyway.
func (b *Budget) Claimed() (series, lines int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.series.claimed, b.lines.claimed
}

// Share is what one Service takes of it.
type Share struct {
	of            *Budget
	large         chan struct{}
	series, lines int
}

// Share returns a new one.
func (b *Budget) Share() *Share { return &Share{of: b, large: make(chan struct{}, largeAtOnce)} }

// claims of one target. The Budget's lock guards them.
type claims struct {
	share         *Share
	series, lines int
	gone          bool
}

// claim so many series and lines in all; what is not needed any more is given back.
// It is refused where that is more than the share or the Budget has.
func (c *claims) claim(series, lines int) bool {
	if c.share == nil {
		return true
	}
	b := c.share.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.gone {
		return series <= leastSeries && lines <= leastLines
	}
	return c.set(&b.series, &c.share.series, &c.series, series-leastSeries) && c.set(&b.lines, &c.share.lines, &c.lines, lines-leastLines)
}

func (c *claims) set(of *purse, share, own *int, want int) bool {
	want = (max(0, want) + chunk - 1) / chunk * chunk
	more := want - *own
	if more > 0 && (of.claimed+more > of.most || *share+more > of.most/2) {
		return false
	}
	of.claimed, *share, *own = of.claimed+more, *share+more, want
	return true
}

// release gives everything back, for good: the target is gone.
func (c *claims) release() {
	if c.share == nil {
		return
	}
	b := c.share.of
	b.mu.Lock()
	defer b.mu.Unlock()
	c.set(&b.series, &c.share.series, &c.series, 0)
	c.set(&b.lines, &c.share.lines, &c.lines, 0)
	c.gone = true
}

// room waits until an answer that may have so many bytes may be read on.
func (c *claims) room(ctx context.Context, most int64) (done func(), err error) {
	if c.share == nil {
		return func() {}, nil
	}
	select {
	case c.share.large <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err() //nolint:wrapcheck // the caller says what it means
	}
	most = min(most, largeBytes)
	if err := c.share.of.large.Acquire(ctx, most); err != nil {
		<-c.share.large
		return nil, err //nolint:wrapcheck // likewise
	}
	return func() {
		c.share.of.large.Release(most)
		<-c.share.large
	}, nil
}

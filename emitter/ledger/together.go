// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"container/list"
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/logging"
)

// An acknowledgement that is written to its CDEventSubject costs a write per event. Those of about a second are
// therefore written together, to a slot. The CDEventSubject takes them over with its next transition, or when its turn
// comes. A crash before the slot is written means that the same events are sent again, byte by byte.

const (
	// gatherFor is how long acknowledgements are gathered before they are written.
	gatherFor = time.Second
	// gatherIdle is how long to wait if another replica leads for all that is unfolded.
	gatherIdle = 15 * time.Second
	// foldShare is how many CDEventSubjects take over their acknowledgements without a transition for each one that was
	// acknowledged, if that is more than Gathering.FoldRate. What is saved up is at most four seconds' worth.
	foldShare, foldSaved = 0.05, 4
	// foldQuiet is how much faster that goes when nothing was acknowledged for quietAfter.
	foldQuiet, quietAfter = 10, 5 * time.Second
	// foldLook is how many CDEventSubjects of other leaders are passed over at a time. To ask who leads takes about a microsecond.
	foldLook = 256
)

// Gathering bounds how acknowledgements are written together.
type Gathering struct {
	// Slots is the number of slots, at most 100, and Facts the number of acknowledgements in each: about 80 bytes each.
	Slots, Facts int
	// FoldRate is how many CDEventSubjects take over their acknowledgements in a second without a transition.
	FoldRate float64
}

// usual leaves one write per event at 50 a second. All slots together have about 1.3 MB.
var usual = Gathering{Slots: 64, Facts: 256, FoldRate: 2}

// WithGathering sets other bounds.
func WithGathering(g Gathering) Option { return func(l *Ledger) { l.gathered = newGathered(g) } }

// gathered is what was acknowledged and is not in the CDEventSubjects yet. Ledger.mu guards it.
type gathered struct {
	Gathering
	// unfolded are the subjects with such acknowledgements, the longest waiting first.
	unfolded *list.List
	// dirty has those whose acknowledgements no slot has, and some that no longer are, until they are looked at.
	dirty []*subject
	slots []slot
	// open is the number of the slot that is written next.
	open int
	// fresh counts the events acknowledged since refilled.
	fresh int
	// tokens is how many subjects may be folded, as of refilled.
	tokens   float64
	refilled time.Time
	// busy is when the last fresh acknowledgements were written.
	busy time.Time
	// wake receives a value when there may be something to write, and urgent when this process has acknowledged something.
	wake, urgent chan struct{}
}

func newGathered(bounds Gathering) gathered {
	return gathered{Gathering: bounds, unfolded: list.New(), slots: make([]slot, bounds.Slots), tokens: foldSaved * bounds.FoldRate, wake: make(chan struct{}, 1), urgent: make(chan struct{}, 1)}
}

// gatherLocked notes that acknowledgements of a subject are to be written.
func (l *Ledger) gatherLocked(sub *subject) {
	g := &l.gathered
	if sub.place == nil {
		sub.place = g.unfolded.PushBack(sub)
	}
	sub.dirty = true
	if !sub.listed {
		sub.listed = true
		g.dirty = append(g.dirty, sub)
	}
	signal(g.wake)
}

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default: // it is signalled already
	}
}

// foldedLocked notes which acknowledgements the CDEventSubject has.
func (l *Ledger) foldedLocked(sub *subject) {
	if sub.object != nil {
		for source, seq := range sub.acked {
			if seq <= sub.object.Status.Acknowledged[source] {
				delete(sub.acked, source)
			}
		}
	}
	if len(sub.acked) > 0 {
		return
	}
	if sub.place != nil {
		l.gathered.unfolded.Remove(sub.place)
	}
	sub.place, sub.slot, sub.dirty, sub.own = nil, nil, false, false
}

// WriteTogether writes what was acknowledged since the last call, to slots. It queues the CDEventSubjects whose turn it
// is to take over theirs. A caller that sets WithAcks calls it about once a second.
func (l *Ledger) WriteTogether(ctx context.Context, now time.Time) error {
	_, err := l.writeTogether(ctx, now)
	return err
}

func (l *Ledger) writeTogether(ctx context.Context, now time.Time) (busy bool, err error) {
	l.gathering.Lock()
	defer l.gathering.Unlock()
	folded := l.fold(now)
	for _, name := range folded {
		l.acks.Add(name)
	}
	wrote, err := l.writeSlots(ctx)
	return len(folded) > 0 || wrote, err
}

// fold chooses the CDEventSubjects that take over their acknowledgements now.
func (l *Ledger) fold(now time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := &l.gathered
	rate := g.FoldRate
	if g.fresh > 0 {
		g.busy = now
	}
	if since := now.Sub(g.refilled).Seconds(); !g.refilled.IsZero() && since > 0 {
		if rate = max(rate, foldShare*float64(g.fresh)/since); now.Sub(g.busy) > quietAfter {
			rate = foldQuiet * g.FoldRate
		}
		g.tokens = min(g.tokens+rate*since, max(1, foldSaved*rate))
	}
	g.refilled, g.fresh = now, 0
	n := max(int(g.tokens), g.unfolded.Len()-g.Slots*g.Facts/2) // the slots must not be full
	var out []string
	for look := min(n+foldLook, g.unfolded.Len()); look > 0 && len(out) < n; look-- {
		at := g.unfolded.Front()
		sub, ok := at.Value.(*subject)
		if !ok {
			g.unfolded.Remove(at)
			continue
		}
		if !l.leads(sub.key.NamespacedName()) {
			g.unfolded.MoveToBack(at)
			continue
		}
		g.unfolded.Remove(at)
		sub.place, sub.dirty = nil, false
		out = append(out, sub.name)
	}
	g.tokens = max(0, g.tokens-float64(len(out)))
	return out
}

// gather writes acknowledgements together until ctx ends. It then writes the last ones, unless writing ends too.
func (l *Ledger) gather(ctx, writing context.Context) {
	warn := func(err error) {
		if err != nil && !errors.Is(err, context.Canceled) {
			logging.FromContext(ctx).Warnw("Acknowledgements are not written yet", "error", err)
		}
	}
	for pause := gatherFor; l.awaken(ctx, pause); l.rouse() {
		busy, err := l.writeTogether(writing, time.Now())
		warn(err)
		if pause = gatherFor; !busy {
			pause = gatherIdle
		}
	}
	l.gathering.Lock()
	defer l.gathering.Unlock()
	_, err := l.writeSlots(writing)
	warn(err)
}

// awaken waits until there is something to write, and then for the pause in which more may come. It returns false if ctx ends.
func (l *Ledger) awaken(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-l.gathered.wake:
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	case <-l.gathered.urgent:
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(gatherFor):
		return true
	}
}

// rouse has gather continue while anything is unfolded.
func (l *Ledger) rouse() {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.gathered.unfolded.Len() > 0 {
		signal(l.gathered.wake)
	}
}

// leadsAll is the default of WithLeads.
func leadsAll(types.NamespacedName) bool { return true }

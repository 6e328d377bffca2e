// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// outage lets the sink fail for a while, and kills and restarts the program during that time.
func (b *bench) outage(ctx context.Context) error {
	for _, c := range contestants {
		r, err := b.play(ctx, c, fast, func(ctx context.Context, t *turn) error {
			n := int(b.plan.Ends.Seconds()) * b.plan.OutagePace
			var both errgroup.Group
			both.Go(func() error { return t.pace(ctx, t.cast.actors, b.plan.OutagePace, n) })
			both.Go(func() error { return b.trouble(ctx, t) })
			if err := both.Wait(); err != nil {
				return err
			}
			return t.collect(ctx, b.plan.OutageFor)
		})
		if err != nil {
			return err
		}
		b.Outage = append(b.Outage, r)
		b.say("%s lost %d of %d, %d came twice", c, len(r.Lost), r.Changes, r.Repeated)
	}
	return nil
}

func (b *bench) trouble(ctx context.Context, t *turn) error {
	start := time.Now()
	at := func(d time.Duration) error { return rest(ctx, time.Until(start.Add(d))) }
	if err := at(b.plan.Breaks); err != nil {
		return err
	}
	t.sink.fail(true)
	if err := at(b.plan.Kill); err != nil {
		return err
	}
	if err := t.process.kill(); err != nil {
		return err
	}
	if err := t.start(ctx); err != nil {
		return err
	}
	if err := at(b.plan.Heals); err != nil {
		return err
	}
	t.sink.fail(false)
	return nil
}

func (r report) outage(p *page) {
	if len(r.results.Outage) == 0 {
		return
	}
	l := r.plan
	p.head("Outage of %v at %d changes/s, with a kill after %v of it", l.Heals-l.Breaks, l.OutagePace, l.Kill-l.Breaks)
	p.row("program", "changes", "lost", "delivered twice", "requests refused by the sink")
	p.rule(5)
	for _, t := range r.results.Outage {
		p.row(t.Contestant, fmt.Sprint(t.Changes), fmt.Sprint(len(t.Lost)), fmt.Sprint(t.Repeated), fmt.Sprint(t.Refused))
	}
}

func (r report) lossAim(p *page) {
	for _, t := range of(ours, r.results.Outage) {
		p.row("nothing lost with an outage and a kill", fmt.Sprintf("%d of %d lost", len(t.Lost), t.Changes), verdict(len(t.Lost) == 0))
	}
}

// drained is the result of sending a full ledger.
type drained struct {
	result
	// Pending is the number of pending events when the sink recovered, at Healed.
	Pending int64
	Healed  time.Time
	// Began is the first event after that.
	Began time.Time
}

// drain fills the ledger, and then lets the sink recover. Only a program that stores pending events can be measured.
func (b *bench) drain(ctx context.Context) error {
	d := drained{}
	r, err := b.play(ctx, ours, fast, func(ctx context.Context, t *turn) error {
		t.sink.fail(true)
		if err := t.burst(ctx, t.cast.actors, b.plan.Writers, b.plan.Burst); err != nil {
			return err
		}
		for end := time.Now().Add(2 * time.Minute); d.Pending < int64(b.plan.Burst); {
			if time.Now().After(end) {
				return fmt.Errorf("only %d of %d changes were journaled in two minutes", d.Pending, b.plan.Burst)
			}
			if err := rest(ctx, time.Second); err != nil {
				return err
			}
			var err error
			if d.Pending, err = t.pending(ctx); err != nil {
				return err
			}
		}
		d.Healed = time.Now()
		t.sink.fail(false)
		return t.collect(ctx, 2*time.Minute)
	})
	if err != nil {
		return err
	}
	d.result = r
	if first := b.sink.since(0); len(first) > 0 {
		d.Began = first[0].At
	}
	b.Drain = &d
	b.say("%s %d pending events drained in %v", ours, d.Pending, d.Last.Sub(d.Healed).Round(100*time.Millisecond))
	return nil
}

func (r report) drain(p *page) {
	d := r.results.Drain
	if d == nil {
		return
	}
	p.head("Draining %d pending events, sink of 1 ms", d.Pending)
	p.row("program", "from the sink's recovery", "from the first event", "events/s", "lost")
	p.rule(5)
	took := d.Last.Sub(d.Began)
	p.row(d.Contestant, seconds(d.Last.Sub(d.Healed)), seconds(took), fmt.Sprintf("%.0f", float64(d.Arrived())/took.Seconds()), fmt.Sprint(len(d.Lost)))
	p.line("")
	p.line("The other two programs keep no events, so they have nothing to drain.")
}

func (r report) drainAim(p *page) {
	if d := r.results.Drain; d != nil {
		took := d.Last.Sub(d.Healed)
		p.row(fmt.Sprintf("%d pending events drained within 10 s", d.Pending), fmt.Sprintf("%.1f s", took.Seconds()), verdict(took < 10*time.Second))
	}
}

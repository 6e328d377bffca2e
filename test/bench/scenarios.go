// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// bench runs the scenarios and collects their results.
type bench struct {
	*stage
	plan plan
	results
}

// results of the scenarios that have been run.
type results struct {
	// Definitions are those of the environments' scenario.
	Definitions []surrounded

	Scraped []scraped
	Latency []result
	// Fast and Slow are bursts, by the sink's delay.
	Fast, Slow []result
	Outage     []result
	Drain      *drained
	Memory     []footprint
	Idle       []rested
}

// prepare writes the Services that scenarios change.
func (b *bench) prepare(ctx context.Context) error {
	var err error
	if b.cast.probe, err = b.cast.create(ctx, "probe", b.plan.Revisions); err != nil {
		return err
	}
	return b.populate(ctx, b.plan.Services)
}

func (b *bench) populate(ctx context.Context, services int) error {
	began := time.Now()
	err := b.cast.grow(ctx, services, b.plan.Revisions, func(done int) {
		if done > 0 && done%1000 == 0 {
			b.say("%d of %d Services, after %v", done, services, time.Since(began).Round(time.Second))
		}
	})
	if err != nil {
		return err
	}
	// Objects created in the same second as the baseline, or later, would cause events.
	return rest(ctx, 2*time.Second)
}

// latency makes changes at a steady pace.
func (b *bench) latency(ctx context.Context) error {
	n := b.plan.Pace * int(b.plan.PaceFor.Seconds())
	for i := range b.plan.PaceRepeats {
		for _, c := range rotated(i) {
			r, err := b.play(ctx, c, 0, func(ctx context.Context, t *turn) error { return b.steadily(ctx, t, n) })
			if err != nil {
				return err
			}
			b.Latency = append(b.Latency, r)
			b.say("%s p50 %v, p99 %v, lost %d", c, percentile(r.Latencies, 50), percentile(r.Latencies, 99), len(r.Lost))
		}
	}
	return nil
}

// steadily makes n changes at the plan's pace, with a witness.
func (b *bench) steadily(ctx context.Context, t *turn, n int) error {
	w, err := t.cast.watch(ctx)
	if err != nil {
		return err
	}
	err = t.pace(ctx, t.cast.actors, b.plan.Pace, n)
	if err == nil {
		err = t.collect(ctx, 30*time.Second)
	}
	if err = errors.Join(err, w.end()); err != nil {
		return err
	}
	return t.correct(w)
}

// bursts makes changes as fast as the API server commits them, with a fast or a slow sink.
func (b *bench) bursts(ctx context.Context, delay time.Duration, repeats int, to *[]result) error {
	for i := range repeats {
		for _, c := range rotated(i) {
			r, err := b.play(ctx, c, delay, func(ctx context.Context, t *turn) error {
				began := time.Now()
				if err := t.burst(ctx, t.cast.actors, b.plan.Writers, b.plan.Burst); err != nil {
					return err
				}
				return t.collect(ctx, b.plan.BurstFor-time.Since(began))
			})
			if err != nil {
				return err
			}
			*to = append(*to, r)
			b.say("%s %.0f events/s, %d of %d in time", c, r.Rate(), r.Arrived(), r.Changes)
		}
	}
	return nil
}

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

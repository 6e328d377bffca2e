// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// latency makes changes at a steady pace.
func (b *bench) latency(ctx context.Context) error {
	n := b.plan.Pace * int(b.plan.PaceFor.Seconds())
	for i := range b.plan.PaceRepeats {
		for _, c := range rotated(i) {
			r, err := b.play(ctx, c, 0, func(ctx context.Context, t *turn) error { return b.steadily(ctx, t, b.plan.Pace, n) })
			if err != nil {
				return err
			}
			b.Latency = append(b.Latency, r)
			b.say("%s p50 %v, p99 %v, lost %d", c, percentile(r.Latencies, 50), percentile(r.Latencies, 99), len(r.Lost))
		}
	}
	return nil
}

// steadily makes n changes at a pace, with a reference.
func (b *bench) steadily(ctx context.Context, t *turn, perSecond, n int) error {
	w, err := t.cast.watch(ctx)
	if err != nil {
		return err
	}
	err = t.pace(ctx, t.cast.actors, perSecond, n)
	if err == nil {
		err = t.collect(ctx, 30*time.Second)
	}
	if err = errors.Join(err, w.end()); err != nil {
		return err
	}
	return t.correct(w)
}

func (r report) latency(p *page) {
	all := r.results.Latency
	if len(all) == 0 {
		return
	}
	p.head("Latency at %d changes/s", r.plan.Pace)
	p.row("program", "p50 ms", "p99 ms", "p99 to bare", "a change's own write: p50 ms", "p99 ms", "API writes per event", "and later, until at rest", "lost")
	p.rule(9)
	for _, c := range contestants {
		turns := of(c, all)
		p.row(c.Name, durations(turns, p50), durations(turns, p99), ratio(median(turns, p99), median(of(bare, all), p99)),
			durations(turns, writeP50), durations(turns, writeP99), apiWrites(turns), laterWrites(turns), lost(turns))
	}
	p.line("")
	p.line("Median of %d repeats of %d changes, with the lowest and the highest in brackets. %s", r.plan.PaceRepeats, all[0].Changes, others(all))
}

// latencyAim takes the cost of a write from the bare program's turns. Our own turns load the API server more, which
// must not relax the limit.
func (r report) latencyAim(p *page) {
	all := r.results.Latency
	if len(all) == 0 {
		return
	}
	got, floor, write := median(of(ours, all), p99), median(of(bare, all), p99), median(of(bare, all), writeP99)
	limit := 1.5*floor + write
	p.row(fmt.Sprintf("p99 at %d changes/s within 1.5 times the bare program's and one API write", r.plan.Pace),
		fmt.Sprintf("%.1f ms; 1.5 × %.1f ms + %.1f ms = %.1f ms", got, floor, write, limit), verdict(got <= limit))
	sum, events, _ := written(of(ours, all))
	perEvent := float64(sum) / float64(max(events, 1))
	p.row(fmt.Sprintf("at most 2.1 API writes per event at %d changes/s, until every event is delivered and that is recorded", r.plan.Pace),
		fmt.Sprintf("%.2f", perEvent), verdict(perEvent <= 2.1))
}

func p50(r result) float64 { return milliseconds(percentile(r.Latencies, 50)) }

func p99(r result) float64 { return milliseconds(percentile(r.Latencies, 99)) }

func writeP50(r result) float64 { return milliseconds(percentile(r.WriteTimes, 50)) }

func writeP99(r result) float64 { return milliseconds(percentile(r.WriteTimes, 99)) }

func durations(turns []result, get func(result) float64) string {
	return spreadOf(values(turns, get)).text("%.1f")
}

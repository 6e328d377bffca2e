// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"
)

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

func (r report) burst(p *page, title string, all []result) {
	if len(all) == 0 {
		return
	}
	p.head("%s: %d changes", title, all[0].Changes)
	p.row("program", "events/s", "to ApiServerSource", "arrived in time", "changes/s", "API writes per event", "and later, until at rest",
		"CPU s per 10,000 events: program", "API server", "etcd", "bench and sink")
	p.rule(11)
	for _, c := range contestants {
		turns := of(c, all)
		p.row(c.Name, numbers(turns, result.Rate), ratio(median(turns, result.Rate), median(of(apiServerSource, all), result.Rate)),
			numbers(turns, func(r result) float64 { return float64(r.Arrived()) }), numbers(turns, changeRate),
			apiWrites(turns), laterWrites(turns),
			numbers(turns, perTenThousand(func(c cpu) time.Duration { return c.Program })),
			numbers(turns, perTenThousand(func(c cpu) time.Duration { return c.APIServer })),
			numbers(turns, perTenThousand(func(c cpu) time.Duration { return c.Etcd })),
			numbers(turns, perTenThousand(func(c cpu) time.Duration { return c.Bench })))
	}
	p.line("")
	p.line("\"In time\" means within %v of the first change. The lowest and the highest of the repeats are in brackets. %s", r.plan.BurstFor, others(all))
}

func (r report) throughputAims(p *page) {
	if all := r.results.Slow; len(all) > 0 {
		got, peer := median(of(ours, all), result.Rate), median(of(apiServerSource, all), result.Rate)
		p.row("events/s above ApiServerSource's with a sink of 50 ms", fmt.Sprintf("%.0f; %.0f", got, peer), verdict(got > peer))
	}
	if all := r.results.Fast; len(all) > 0 {
		mine, floor := median(of(ours, all), writeRate), median(of(bare, all), writeRate)
		rate, peer := median(of(ours, all), result.Rate), median(of(bare, all), result.Rate)
		p.row("events/s at least 0.55 times the bare program's with a sink of 1 ms", fmt.Sprintf("%.0f; %.0f", rate, peer), verdict(rate >= .55*peer))
		p.row("bounded only by the API server's writes with a sink of 1 ms",
			fmt.Sprintf("the API server took %.0f writes/s, changes included; %.0f with the bare program, which writes nothing", mine, floor), "")
	}
}

// writeRate is the rate of API writes until the last event arrived: those of the changes plus those of the
// program.
func writeRate(r result) float64 {
	sum := r.Changes
	for _, n := range r.APIWrites {
		sum += n
	}
	took := r.Last.Sub(r.First).Seconds()
	if took <= 0 {
		return 0
	}
	return float64(sum) / took
}

// changeRate is the API server's rate of committed changes, per second.
func changeRate(r result) float64 {
	took := r.LastCommit.Sub(r.First).Seconds()
	if took <= 0 {
		return 0
	}
	return float64(r.Changes) / took
}

// perTenThousand is processor time in seconds per 10,000 events.
func perTenThousand(get func(cpu) time.Duration) func(result) float64 {
	return func(r result) float64 {
		if r.Arrived() == 0 {
			return 0
		}
		return get(r.CPU).Seconds() / float64(r.Arrived()) * 10_000
	}
}

func numbers(turns []result, get func(result) float64) string {
	return spreadOf(values(turns, get)).text("%.0f")
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"
)

// bench runs the scenarios and collects their results.
type bench struct {
	*stage
	plan plan
	results
}

// scenario is one comparison. Its file says what it measures, how it is reported, and what we want it to show.
type scenario struct {
	name string
	run  func(*bench, context.Context) error
	// own says that it creates its own objects, and needs none of the Services that the others change.
	own bool
}

// scenarios in order: those that need most objects come last.
var scenarios = []scenario{
	{name: "scrape", run: (*bench).scrape, own: true},
	{name: "latency", run: (*bench).latency},
	{name: "fast", run: func(b *bench, ctx context.Context) error { return b.bursts(ctx, fast, b.plan.BurstRepeats, &b.Fast) }},
	{name: "slow", run: func(b *bench, ctx context.Context) error { return b.bursts(ctx, slow, 1, &b.Slow) }},
	{name: "outage", run: (*bench).outage},
	{name: "drain", run: (*bench).drain},
	{name: "memory", run: (*bench).memory},
	{name: "rest", run: (*bench).idle},
	{name: "serverless", run: (*bench).sleepless, own: true},
}

func scenarioNames() []string {
	names := make([]string, len(scenarios))
	for i, s := range scenarios {
		names[i] = s.name
	}
	return names
}

// results of the scenarios that have been run.
type results struct {
	Scraped []scraped
	Latency []result
	// Fast and Slow are bursts, by the sink's delay.
	Fast, Slow []result
	Outage     []result
	Drain      *drained
	Memory     []footprint
	Idle       []rested
	Starts     []time.Duration
	Woken      []woken
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

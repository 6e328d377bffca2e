// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// kept is the number of values that the controller keeps of the series of each kind of port.
var kept = struct{ application, queueProxy int }{98, 21}

// scraped is the cost of scraping for one program.
type scraped struct {
	Program string
	Targets int
	Window  time.Duration
	CPU     time.Duration
	memory
	// Heap is the part of Go's heap that is in use.
	Heap uint64
	// Readings are the scrapes in the window, and Missed those that were due and did not happen, as recorded by the pods.
	Readings, Missed int
	// Counted is the final number of handled requests in the program; Truth is that in its scrapes.
	Counted, Truth float64
}

// scrape has the controller and Prometheus scrape the same pods at the same time, first a tenth of them. Both are
// restarted for each number, so that neither keeps memory from the run before.
func (b *bench) scrape(ctx context.Context) (err error) {
	p, err := newPods(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	have := 0
	for _, targets := range []int{b.plan.Targets / 10, b.plan.Targets} {
		services := targets / portsOfService
		if err := p.grow(ctx, services*podsOfService); err != nil {
			return err
		}
		if err := b.deployAll(ctx, have, services); err != nil {
			return err
		}
		have = services
		// With an earlier ledger, the new Services would count as created.
		if err := b.forget(ctx); err != nil {
			return err
		}
		if err := rest(ctx, 2*time.Second); err != nil {
			return err
		}
		if err := b.readBoth(ctx, p, services*portsOfService); err != nil {
			return fmt.Errorf("with %d targets: %w", targets, err)
		}
	}
	return b.undeploy(ctx)
}

func (b *bench) readBoth(ctx context.Context, p *pods, targets int) error {
	p.thaw()
	theirs, err := b.prometheus(ctx, p)
	if err != nil {
		return err
	}
	defer theirs.process.stop()
	mine, err := b.measuring(ctx)
	if err != nil {
		return err
	}
	defer mine.process.stop()
	both := []*reader{mine, theirs}

	// Starting must not count as scraping.
	if err := p.await(ctx, both, 2, time.Time{}); err != nil {
		return err
	}
	from := time.Now()
	before := make([]time.Duration, len(both))
	for i, r := range both {
		if before[i], err = cpuOf(r.process.pid()); err != nil {
			return err
		}
	}
	for range int(b.plan.ReadFor / scrapeInterval) {
		if err := rest(ctx, scrapeInterval); err != nil {
			return err
		}
		// The controller's metrics are scraped too, as often as it scrapes pods.
		if _, err := mine.counted(ctx, mine); err != nil {
			return err
		}
	}
	to := time.Now()
	all := make([]scraped, len(both))
	for i, r := range both {
		if all[i], err = r.took(ctx); err != nil {
			return err
		}
		all[i].CPU -= before[i]
		all[i].Targets, all[i].Window = targets, to.Sub(from)
		all[i].Readings, all[i].Missed = p.read(r.agent, from, to, scrapeInterval)
	}
	return b.settle(ctx, p, both, all)
}

// settle freezes the counters until both programs have scraped them, and compares the totals.
func (b *bench) settle(ctx context.Context, p *pods, both []*reader, all []scraped) error {
	stood := p.freeze()
	if err := p.await(ctx, both, 1, stood); err != nil {
		return err
	}
	if err := rest(ctx, time.Second); err != nil { // the last scrapes are still being processed
		return err
	}
	for i, r := range both {
		var err error
		if all[i].Counted, err = r.counted(ctx, r); err != nil {
			return err
		}
		all[i].Truth = r.truth(p)
		s := all[i]
		b.say("%-16s %d targets: %.2f s of a processor in %.0f s, %s resident; %d readings, %d missed; counted %.0f of %.0f requests",
			r.name, s.Targets, s.CPU.Seconds(), s.Window.Seconds(), mebibytes(s.Resident), s.Readings, s.Missed, s.Counted, s.Truth)
	}
	b.Scraped = append(b.Scraped, all...)
	return nil
}

// took is a program's cost so far.
func (r *reader) took(ctx context.Context) (s scraped, err error) {
	s.Program = r.name
	if err := r.process.alive(); err != nil {
		return s, err
	}
	var errs [3]error
	s.CPU, errs[0] = cpuOf(r.process.pid())
	s.memory, errs[1] = memoryOf(r.process.pid())
	about, err := r.metrics(ctx)
	errs[2], s.Heap = err, heap(about)
	return s, errors.Join(errs[:]...)
}

// await waits until every program has scraped every port that often since then.
func (p *pods) await(ctx context.Context, all []*reader, times int, since time.Time) error {
	for end := time.Now().Add(awake); ; {
		least := times
		for _, r := range all {
			if err := r.process.alive(); err != nil {
				return err
			}
			n := p.least(r.agent, since)
			if n < times && time.Now().After(end) {
				return fmt.Errorf("%s has not scraped every pod %d times in %v; its log is %s", r.name, times, awake, r.process.log)
			}
			least = min(least, n)
		}
		if least >= times {
			return nil
		}
		if err := rest(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

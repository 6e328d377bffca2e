package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// kept is how many numbers the controller makes of the series of each kind of port.
var kept = struct{ application, queueProxy int }{98, 21}

// scraped is what one program needed to read pods.
type scraped struct {
	Program string
	Targets int
	Window  time.Duration
	CPU     time.Duration
	memory
	// Heap is what Go had in use of it.
	Heap uint64
	// Readings in the window, and those that were due and missed, as the pods have seen it.
	Readings, Missed int
	// Counted are the handled requests that the program tells of in the end, Truth those that pods have told it of.
	Counted, Truth float64
}

// scrape: the controller and Prometheus read the same pods at the same time, first a tenth of them. Both are started
// anew for each number, so that neither has memory from the other.
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
		// To a ledger of before, the new Services would be news.
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

	// What starting costs is not what reading costs.
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
		// Somebody reads the controller too, as often as it reads pods.
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

// settle lets counters stand still until both programs have seen where, and compares what they have counted.
func (b *bench) settle(ctx context.Context, p *pods, both []*reader, all []scraped) error {
	stood := p.freeze()
	if err := p.await(ctx, both, 1, stood); err != nil {
		return err
	}
	if err := rest(ctx, time.Second); err != nil { // what was read last is still to be counted
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

// took is what a program has used until now.
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

// await waits until every port was read so often by every program, since then.
func (p *pods) await(ctx context.Context, all []*reader, times int, since time.Time) error {
	for end := time.Now().Add(awake); ; {
		least := times
		for _, r := range all {
			if err := r.process.alive(); err != nil {
				return err
			}
			n := p.least(r.agent, since)
			if n < times && time.Now().After(end) {
				return fmt.Errorf("%s has not read every pod %d times in %v; its log is %s", r.name, times, awake, r.process.log)
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

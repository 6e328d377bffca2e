// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// scraping reports the cost of scraping pods.
func (r report) scraping(p *page) {
	all := r.results.Scraped
	if len(all) == 0 {
		return
	}
	p.head("Reading pods: %d and %d targets with %d series each, every %v", all[0].Targets, all[len(all)-1].Targets, seriesEach, scrapeInterval)
	p.row("program", "targets", "CPU s per minute", "to Prometheus", "CPU ms per reading", "resident", "to Prometheus", "peak", "to Prometheus", "heap in use",
		"readings", "missed", "requests counted, of those exposed")
	p.rule(13)
	for _, s := range all {
		peer := r.scraped(prometheusName, s.Targets)
		p.row(s.Program, fmt.Sprint(s.Targets), fmt.Sprintf("%.2f", s.perMinute()), ratio(s.perMinute(), peer.perMinute()),
			fmt.Sprintf("%.2f", s.perReading()), mebibytes(s.Resident), ratio(float64(s.Resident), float64(peer.Resident)),
			mebibytes(s.Peak), ratio(float64(s.Peak), float64(peer.Peak)), mebibytes(s.Heap),
			fmt.Sprint(s.Readings), fmt.Sprint(s.Missed), fmt.Sprintf("%.0f of %.0f", s.Counted, s.Truth))
	}
	p.line("")
	var growth []string
	for _, name := range []string{ours.Name, prometheusName} {
		few, many := r.scraped(name, all[0].Targets), r.scraped(name, all[len(all)-1].Targets)
		growth = append(growth, fmt.Sprintf("%s %s times the processor time and %s times the memory", name,
			ratio(many.perMinute(), few.perMinute()), ratio(float64(many.Resident), float64(few.Resident))))
	}
	p.line("With %s times the targets: %s. Both ran at the same time, over %v. In the larger case, the targets are the ports of %d pods of %d Services with %d Revisions each. "+
		"Of an application's series, the controller keeps %d numbers; of queue-proxy's, %d.",
		ratio(float64(all[len(all)-1].Targets), float64(all[0].Targets)), strings.Join(growth, ", "), all[0].Window.Round(time.Second),
		all[len(all)-1].Targets/2, all[len(all)-1].Targets/portsOfService, shardedRevisions, kept.application, kept.queueProxy)
}

// scraped returns a program's cost for that many targets.
func (r report) scraped(program string, targets int) scraped {
	for _, s := range r.results.Scraped {
		if s.Program == program && s.Targets == targets {
			return s
		}
	}
	return scraped{}
}

// perMinute is processor time in seconds per minute.
func (s scraped) perMinute() float64 {
	if s.Window <= 0 {
		return 0
	}
	return s.CPU.Seconds() / s.Window.Minutes()
}

// perReading is processor time in milliseconds per scrape.
func (s scraped) perReading() float64 {
	if s.Readings == 0 {
		return 0
	}
	return milliseconds(s.CPU) / float64(s.Readings)
}

// scrapeAims: a program that misses scrapes must not meet the aims for cost.
func (r report) scrapeAims(p *page) {
	all := r.results.Scraped
	if len(all) == 0 {
		return
	}
	most := all[len(all)-1].Targets
	mine, peer := r.scraped(ours.Name, most), r.scraped(prometheusName, most)
	whole := mine.Missed <= peer.Missed && mine.Counted == mine.Truth
	p.row(fmt.Sprintf("processor time of reading %d targets under half of Prometheus's", most),
		fmt.Sprintf("%.2f; %.2f s per minute, %s", mine.perMinute(), peer.perMinute(), ratio(mine.perMinute(), peer.perMinute())),
		verdict(whole && mine.perMinute() < peer.perMinute()/2))
	p.row("memory under half of Prometheus's, the rest of the controller included",
		fmt.Sprintf("%s; %s, %s", mebibytes(mine.Resident), mebibytes(peer.Resident), ratio(float64(mine.Resident), float64(peer.Resident))),
		verdict(whole && mine.Resident < peer.Resident/2))
	p.row("no reading missed, every request counted", fmt.Sprintf("%d of %d missed; %.0f of %.0f counted", mine.Missed, mine.Readings+mine.Missed, mine.Counted, mine.Truth),
		verdict(mine.Missed == 0 && mine.Counted == mine.Truth))
}

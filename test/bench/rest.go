// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// footprint is the memory of one contestant.
type footprint struct {
	Contestant string
	memory
	Services, Revisions int
}

// memory runs all contestants at once, because they are idle. It measures after they have been idle long enough for
// Go's collector to free what they needed to start.
func (b *bench) memory(ctx context.Context) error {
	if err := b.populate(ctx, b.plan.AtRest); err != nil {
		return err
	}
	// With the ledger of the other scenarios, the new Services would count as created.
	if err := b.forget(ctx); err != nil {
		return err
	}
	if err := rest(ctx, 2*time.Second); err != nil {
		return err
	}
	turns, err := b.startAll(ctx, contestants...)
	defer func() {
		for _, t := range turns {
			t.stop()
		}
	}()
	if err != nil {
		return err
	}
	b.say("waiting %v until the programs have settled", b.plan.Settle)
	if err := rest(ctx, b.plan.Settle); err != nil {
		return err
	}
	for _, t := range turns {
		m, err := t.memory()
		if err != nil {
			return err
		}
		b.Memory = append(b.Memory, footprint{t.contestant.Name, m, b.plan.AtRest, b.plan.AtRest * b.plan.Revisions})
		b.say("%s %s resident, %s at most (%s)", t.contestant, mebibytes(m.Resident), mebibytes(m.Peak), filepath.Base(t.process.log))
	}
	return nil
}

func (r report) memory(p *page) {
	all := r.results.Memory
	if len(all) == 0 {
		return
	}
	p.head("Memory with %d Services and %d Revisions", all[0].Services, all[0].Revisions)
	p.row("program", "resident", "to bare", "peak while starting")
	p.rule(4)
	for _, f := range all {
		p.row(f.Contestant, mebibytes(f.Resident), ratio(float64(f.Resident), float64(r.footprint(bare))), mebibytes(f.Peak))
	}
	p.line("")
	p.line("Read %v after the last program has started. The bare program keeps whole Services, Routes and Revisions, as typed informers do.", r.plan.Settle)
}

func (r report) footprint(c contestant) uint64 {
	for _, f := range r.results.Memory {
		if f.Contestant == c.Name {
			return f.Resident
		}
	}
	return 0
}

func (r report) memoryAim(p *page) {
	got, peer := r.footprint(ours), r.footprint(bare)
	if got == 0 || peer == 0 {
		return
	}
	measured, met := fmt.Sprintf("%s; %s / 2 = %s", mebibytes(got), mebibytes(peer), mebibytes(peer/2)), got <= peer/2
	if other := r.footprint(apiServerSource); other > 0 {
		measured, met = measured+"; "+mebibytes(other), met && got < other
	}
	p.row("memory at most half of the bare program's, and below ApiServerSource's", measured, verdict(met))
}

// rested is what a program needs while nothing changes in the cluster.
type rested struct {
	Contestant          string
	Services, Revisions int
	// Window is how long it was watched. CPU is its processor time in the window.
	Window, CPU time.Duration
	// Start and End are its memory at both ends of the window: the lowest reading there, because garbage comes and goes.
	Start, End memory
	// Others is the processor time of the rest of the machine.
	Others time.Duration
	// APIWrites are the writes in the window, by resource.
	APIWrites map[string]int
}

// cores is the mean number of cores that the program keeps busy.
func (r rested) cores() float64 { return r.CPU.Seconds() / r.Window.Seconds() }

// idle measures the controller and the bare program beside it, for each number of Services. No Service has a pod, and
// nothing changes. Both are restarted for each number, so that neither keeps memory from the run before.
func (b *bench) idle(ctx context.Context) error {
	if err := b.atMost(ctx, b.plan.Idlers[0]); err != nil {
		return err
	}
	for _, services := range b.plan.Idlers {
		if err := b.populate(ctx, services); err != nil {
			return err
		}
		// With an earlier ledger, the new Services would count as created.
		if err := b.forget(ctx); err != nil {
			return err
		}
		if err := rest(ctx, 2*time.Second); err != nil {
			return err
		}
		if err := b.watchIdle(ctx, services); err != nil {
			return fmt.Errorf("with %d Services: %w", services, err)
		}
	}
	return nil
}

// atMost removes all Services if there are more than that, and then makes the one of the probe again.
func (b *bench) atMost(ctx context.Context, services int) error {
	if len(b.cast.actors) > services {
		b.say("removing %d Services", len(b.cast.actors))
		if err := b.undeploy(ctx); err != nil {
			return err
		}
		b.cast = &cast{client: b.cast.client}
	}
	if b.cast.probe != nil {
		return nil
	}
	var err error
	b.cast.probe, err = b.cast.create(ctx, "probe", b.plan.Revisions)
	return err
}

func (b *bench) watchIdle(ctx context.Context, services int) error {
	turns, err := b.startAll(ctx, ours, bare)
	defer func() {
		for _, t := range turns {
			t.stop()
		}
	}()
	if err != nil {
		return err
	}
	b.say("waiting %v until the programs have settled", b.plan.Settle)
	if err := rest(ctx, b.plan.Settle); err != nil {
		return err
	}
	offset, err := b.audit.size()
	if err != nil {
		return err
	}
	began := time.Now()
	before, err := busyTime()
	if err != nil {
		return err
	}
	all := make([]rested, len(turns))
	for i, t := range turns {
		all[i] = rested{Contestant: t.contestant.Name, Services: services, Revisions: services * b.plan.Revisions}
		if all[i].CPU, err = t.cpu(); err != nil {
			return err
		}
	}
	b.say("watching %v", b.plan.IdleFor)
	edge := min(b.plan.IdleFor/4, edgeFor)
	starts, err := lowest(ctx, turns, edge)
	if err != nil {
		return err
	}
	if err := rest(ctx, b.plan.IdleFor-2*edge); err != nil {
		return err
	}
	ends, err := lowest(ctx, turns, edge)
	if err != nil {
		return err
	}
	others, err := busyTime()
	if err != nil {
		return err
	}
	others -= before
	for i, t := range turns {
		r := &all[i]
		used, err := t.cpu()
		if err != nil {
			return err
		}
		r.Start, r.End = starts[i], ends[i]
		r.CPU, r.Window = used-r.CPU, time.Since(began)
		others -= r.CPU
		if r.APIWrites, err = b.audit.writes(offset, r.Contestant); err != nil {
			return err
		}
		b.say("%s %.4f cores, %s resident, then %s", t.contestant, r.cores(), mebibytes(r.Start.Resident), mebibytes(r.End.Resident))
	}
	for i := range all {
		all[i].Others = others
	}
	b.Idle = append(b.Idle, all...)
	return nil
}

// edgeFor is how long memory is read at both ends of the window, and edgeEvery how often. The controller returns
// garbage once a minute.
const edgeFor, edgeEvery = 90 * time.Second, 5 * time.Second

// lowest reads the memory of contestants for a time, and returns the lowest reading of each.
func lowest(ctx context.Context, turns []*turn, within time.Duration) ([]memory, error) {
	out := make([]memory, len(turns))
	for until := time.Now().Add(within); time.Now().Before(until); {
		for i, t := range turns {
			m, err := t.memory()
			if err != nil {
				return nil, err
			}
			if out[i].Resident == 0 || m.Resident < out[i].Resident {
				out[i] = m
			}
		}
		if err := rest(ctx, edgeEvery); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// startAll starts contestants that run at the same time, each when the ones before are at rest. On an error, it returns
// those that were started.
func (b *bench) startAll(ctx context.Context, all ...contestant) ([]*turn, error) {
	turns := make([]*turn, 0, len(all))
	for _, c := range all {
		t := &turn{stage: b.stage, churn: &churn{by: b.cast}, contestant: c}
		b.sink.behave(0)
		if err := t.start(ctx); err != nil {
			return turns, err
		}
		turns = append(turns, t)
		if err := t.wake(ctx); err != nil {
			return turns, fmt.Errorf("%s with %d Services: %w", c.Name, len(b.cast.actors), err)
		}
		b.say("%s knows of %d Services", c, len(b.cast.actors))
	}
	return turns, nil
}

// memory returns the memory of the contestant.
func (t *turn) memory() (memory, error) {
	m, err := memoryOf(t.process.pid())
	return m, errors.Join(err, t.process.alive())
}

func (r report) idle(p *page) {
	all := r.results.Idle
	if len(all) == 0 {
		return
	}
	p.head("At rest: no pod, no request and no change, for %v", all[0].Window.Round(time.Second))
	p.row("program", "Services", "Revisions", "cores", "resident at the start", "at the end", "to bare", "API writes")
	p.rule(8)
	for i, s := range all {
		floor := uint64(0)
		for _, other := range all[max(0, i-1):min(len(all), i+2)] {
			if other.Services == s.Services && other.Contestant == bare.Name {
				floor = other.End.Resident
			}
		}
		p.row(s.Contestant, fmt.Sprint(s.Services), fmt.Sprint(s.Revisions), fmt.Sprintf("%.4f", s.cores()), mebibytes(s.Start.Resident), mebibytes(s.End.Resident),
			ratio(float64(s.End.Resident), float64(floor)), writesOf(s.APIWrites))
	}
	p.line("")
	p.line("Both programs ran at the same time, and were restarted for each number of Services. The first reading is %v after the start of the last one. Meanwhile, the rest of the "+
		"machine, API server included, used %s of a core.", r.plan.Settle, spreadOf(values(all, func(s rested) float64 { return s.Others.Seconds() / s.Window.Seconds() })).text("%.2f"))
}

// Aims of the controller at rest.
const (
	idleCores = 0.01
	// growth is noise: what the kernel counts moves by as much while a program does nothing.
	growth = 0.02
)

func (r report) idleAims(p *page) {
	for _, s := range r.results.Idle {
		if s.Contestant != ours.Name {
			continue
		}
		p.row(fmt.Sprintf("under %v of a core at rest with %d Services", idleCores, s.Services), fmt.Sprintf("%.4f", s.cores()), verdict(s.cores() < idleCores))
		p.row(fmt.Sprintf("no growth at rest in %v with %d Services, apart from %.0f %%", s.Window.Round(time.Second), s.Services, 100*growth),
			mebibytes(s.Start.Resident)+", then "+mebibytes(s.End.Resident), verdict(float64(s.End.Resident) <= (1+growth)*float64(s.Start.Resident)))
	}
}

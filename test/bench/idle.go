// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

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

// idle measures the controller and the bare program beside it, for each number of Services. No Service has a pod, and nothing
// changes. Both are restarted for each number, so that neither keeps memory from the run before.
func (b *bench) idle(ctx context.Context) error {
	if len(b.cast.actors) > b.plan.Idlers[0] {
		b.say("removing %d Services", len(b.cast.actors))
		if err := b.undeploy(ctx); err != nil {
			return err
		}
		b.cast = &cast{client: b.cast.client}
		var err error
		if b.cast.probe, err = b.cast.create(ctx, "probe", b.plan.Revisions); err != nil {
			return err
		}
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

func (b *bench) watchIdle(ctx context.Context, services int) error {
	turns, err := b.startAll(ctx, ours, bare)
	defer func() {
		for _, t := range turns {
			t.process.stop()
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

// edgeFor is how long memory is read at both ends of the window, and edgeEvery how often. The controller returns garbage once a minute.
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

// startAll starts contestants that run at the same time, each when the ones before are at rest. On an error, it returns those that
// were started.
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

// cpu returns the processor time that the contestant has used.
func (t *turn) cpu() (time.Duration, error) {
	used, err := cpuOf(t.process.pid())
	return used, errors.Join(err, t.process.alive())
}

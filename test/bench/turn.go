// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

const (
	// awake bounds the time until a contestant reports a change, with few Services.
	awake = 3 * time.Minute
	// settled is how long no event may arrive before a measurement starts, and idle how much processor time a contestant
	// may use in that time.
	settled = 2 * time.Second
	idle    = 100 * time.Millisecond
	// busy is how long a contestant may go on using more than that while it neither sends nor writes. perService is how
	// much longer the start may take for each Service.
	busy       = time.Minute
	perService = 20 * time.Millisecond
	// afterwards is the time in which a contestant may still record what it delivered.
	afterwards = 3 * time.Second
)

// turn is one contestant's time on the stage. The others do not run.
type turn struct {
	*stage
	*churn
	contestant contestant
	process    *process
	// beside are further programs that belong to the contestant.
	beside []*process
	// address is that of the core, in the serverless mode.
	address string

	// arrivals are the decoded requests; decoded is their number.
	arrivals []arrival
	decoded  int
}

// result is the result of one turn.
type result struct {
	Contestant string
	outcome
	// WriteTimes are the durations of the writes that made the changes.
	WriteTimes []time.Duration
	// Refused are requests that the sink rejected on purpose.
	Refused int
	CPU     cpu
	Took    time.Duration
	// APIWrites are the contestant's until every event is delivered and that is recorded, by resource. LaterWrites are
	// those from then on, until it comes to rest.
	APIWrites, LaterWrites map[string]int
}

// play starts a contestant, waits until it reports changes, runs a scenario and measures the costs.
func (s *stage) play(ctx context.Context, c contestant, delay time.Duration, scenario func(context.Context, *turn) error) (r result, err error) {
	t := &turn{stage: s, churn: &churn{by: s.cast}, contestant: c}
	s.sink.behave(delay)
	if err := t.start(ctx); err != nil {
		return r, err
	}
	defer t.stop()
	if err := t.wake(ctx); err != nil {
		return r, fmt.Errorf("%s: %w", c.Name, err)
	}
	s.sink.behave(delay)
	t.arrivals, t.decoded = nil, 0

	offset, err1 := s.audit.size()
	before, err2 := s.cpuNow(t.pids()...)
	if err := errors.Join(err1, err2); err != nil {
		return r, err
	}
	began := time.Now()
	if err := scenario(ctx, t); err != nil {
		return r, fmt.Errorf("%s: %w", c.Name, err)
	}
	if err := rest(ctx, afterwards); err != nil {
		return r, err
	}
	if err := t.alive(); err != nil {
		return r, err
	}
	after, err := s.cpuNow(t.pids()...)
	if err != nil {
		return r, err
	}
	r = result{Contestant: c.Name, outcome: t.outcome(), WriteTimes: writes(t.all()), CPU: after.minus(before), Took: time.Since(began)}
	_, r.Refused = s.sink.counts()
	if r.APIWrites, err = s.audit.writes(offset, c.Name); err != nil || len(r.APIWrites) == 0 {
		// A program that writes nothing may be far behind a slow sink: it ends now.
		return r, err
	}
	if offset, err = s.audit.size(); err != nil {
		return r, err
	}
	if err := t.calm(ctx); err != nil {
		return r, err
	}
	r.LaterWrites, err = s.audit.writes(offset, c.Name)
	return r, err
}

// start starts or restarts the contestant's program.
func (t *turn) start(ctx context.Context) error {
	if t.contestant.start != nil {
		return t.contestant.start(ctx, t)
	}
	config, err := t.kubeconfig(t.contestant.Name)
	if err != nil {
		return err
	}
	env := append([]string{"KUBECONFIG=" + config}, t.contestant.env(t.stage)...)
	log := filepath.Join(t.dir, t.contestant.Name+".log")
	t.process, err = program{name: t.contestant.Name, path: t.contestant.path(t.programs), log: log, env: env}.launch(ctx)
	return err
}

// stop ends all programs of the contestant.
func (t *turn) stop() {
	for _, p := range append(t.beside, t.process) {
		if p != nil {
			p.stop()
		}
	}
}

// alive returns an error if one of them has ended.
func (t *turn) alive() error {
	for _, p := range append(t.beside, t.process) {
		if err := p.alive(); err != nil {
			return err
		}
	}
	return nil
}

func (t *turn) pids() []int {
	all := []int{t.process.pid()}
	for _, p := range t.beside {
		all = append(all, p.pid())
	}
	return all
}

// cpu returns the processor time that the contestant has used.
func (t *turn) cpu() (time.Duration, error) {
	sum := time.Duration(0)
	for _, pid := range t.pids() {
		used, err := cpuOf(pid)
		if err != nil {
			return 0, errors.Join(err, t.alive())
		}
		sum += used
	}
	return sum, t.alive()
}

// wake changes one Service repeatedly until an event reports it, and then waits for pending events of earlier
// turns.
func (t *turn) wake(ctx context.Context) error {
	began := time.Now()
	probes := map[change]bool{}
	for {
		probe, err := t.cast.shift(ctx, t.cast.probe)
		if err != nil {
			return err
		}
		probes[probe.change] = true
		if err := rest(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		if err := t.alive(); err != nil {
			return err
		}
		t.decode()
		for _, a := range t.arrivals {
			if probes[a.change] {
				return t.calm(ctx)
			}
		}
		if time.Since(began) > t.patience() {
			return fmt.Errorf("no event arrived within %v of the start; the log is %s", t.patience(), t.process.log)
		}
	}
}

// patience is how long the contestant may take to report a change, and then to come to rest.
func (t *turn) patience() time.Duration {
	return awake + time.Duration(len(t.cast.actors))*perService
}

// calm waits until no events arrive, and the contestant neither writes nor needs processor time: at its first start,
// the controller writes a baseline, which causes no events. A contestant that writes nothing any more and is still busy
// counts as calm after a while: what it then needs is part of every measurement.
func (t *turn) calm(ctx context.Context) error {
	began, still := time.Now(), time.Now()
	for time.Since(began) < t.patience() {
		offset, err1 := t.audit.size()
		before, err2 := t.cpu()
		if err := errors.Join(err1, err2, rest(ctx, settled)); err != nil {
			return err
		}
		after, err1 := t.cpu()
		writes, err2 := t.audit.writes(offset, t.contestant.Name)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if delete(writes, "leases"); len(writes) > 0 || t.sink.quiet() <= settled {
			still = time.Now()
			continue
		}
		if after-before < idle {
			return nil
		}
		if time.Since(still) > busy {
			t.say("%s is still busy: %v of processor time in %v", t.contestant, after-before, settled)
			return nil
		}
	}
	return fmt.Errorf("it was still writing or sending %v after the start; the log is %s", time.Since(began).Round(time.Second), t.process.log)
}

// collect waits until every change has an event, no more events arrive, or time is up. Events that are missing then
// count as lost or late, depending on the scenario.
func (t *turn) collect(ctx context.Context, limit time.Duration) error {
	want := len(t.all())
	for end := time.Now().Add(limit); time.Now().Before(end); {
		// Decode only once enough events have arrived: decoding takes CPU time from the contestants.
		if taken, _ := t.sink.counts(); taken >= want && len(t.outcome().Lost) == 0 || t.sink.quiet() > t.contestant.silent {
			return nil
		}
		if err := t.alive(); err != nil {
			return err
		}
		if err := rest(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func (t *turn) decode() {
	for _, r := range t.sink.since(t.decoded) {
		t.decoded++
		if c, ok := t.contestant.decode(r); ok {
			t.arrivals = append(t.arrivals, arrival{c, r.At})
		}
	}
}

func (t *turn) outcome() outcome {
	t.decode()
	return match(t.all(), t.arrivals)
}

// rest waits, or returns the context's error.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting: %w", context.Cause(ctx))
	}
}

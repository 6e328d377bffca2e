package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

const (
	// awake is how long a contestant may take until it tells of a change.
	awake = 3 * time.Minute
	// settled is for how long nothing must have come before a measurement begins, and idle how much processor time a
	// contestant may use in that time.
	settled = 2 * time.Second
	idle    = 100 * time.Millisecond
	// afterwards is how long a contestant may still write down what it did.
	afterwards = time.Second
)

// turn is a contestant at work on the stage. The others do not run meanwhile.
type turn struct {
	*stage
	*churn
	contestant contestant
	process    *process

	// arrivals are decoded up to the number of requests in decoded.
	arrivals []arrival
	decoded  int
}

// result is what one turn gave.
type result struct {
	Contestant string
	outcome
	// WriteTimes are those of the changes themselves.
	WriteTimes []time.Duration
	// Refused are requests that the sink refused on purpose.
	Refused int
	CPU     cpu
	Took    time.Duration
	// APIWrites are the contestant's, by resource.
	APIWrites map[string]int
}

// play starts a contestant, waits until it tells of changes, plays a scenario and takes down what it cost.
func (s *stage) play(ctx context.Context, c contestant, delay time.Duration, scenario func(context.Context, *turn) error) (r result, err error) {
	t := &turn{stage: s, churn: &churn{by: s.cast}, contestant: c}
	s.sink.behave(delay)
	if err := t.start(ctx); err != nil {
		return r, err
	}
	defer func() { t.process.stop() }()
	if err := t.wake(ctx); err != nil {
		return r, fmt.Errorf("%s: %w", c.Name, err)
	}
	s.sink.behave(delay)
	t.arrivals, t.decoded = nil, 0

	offset, err1 := s.audit.size()
	before, err2 := s.cpuNow(t.process.pid())
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
	if err := t.process.alive(); err != nil {
		return r, err
	}
	after, err1 := s.cpuNow(t.process.pid())
	r = result{Contestant: c.Name, outcome: t.outcome(), WriteTimes: writes(t.all()), CPU: after.minus(before), Took: time.Since(began)}
	_, r.Refused = s.sink.counts()
	r.APIWrites, err2 = s.audit.writes(offset, c.Name)
	return r, errors.Join(err1, err2)
}

// start starts the contestant's program, for the first time or again.
func (t *turn) start(ctx context.Context) error {
	config, err := t.kubeconfig(t.contestant.Name)
	if err != nil {
		return err
	}
	env := append([]string{"KUBECONFIG=" + config}, t.contestant.env(t.stage)...)
	log := filepath.Join(t.dir, t.contestant.Name+".log")
	t.process, err = launch(ctx, t.contestant.Name, t.contestant.path(t.programs), env, log)
	return err
}

// wake changes one Service again and again until an event tells of it, and then waits until what was owed from
// earlier turns has come too.
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
		if err := t.process.alive(); err != nil {
			return err
		}
		t.decode()
		for _, a := range t.arrivals {
			if probes[a.change] {
				return t.calm(ctx)
			}
		}
		if time.Since(began) > awake {
			return fmt.Errorf("no event came within %v of its start; its log is %s", awake, t.process.log)
		}
	}
}

// calm waits until nothing comes any more and the contestant has nothing to do: a first start of the controller writes
// its baseline, which no event tells of.
func (t *turn) calm(ctx context.Context) error {
	for end := time.Now().Add(awake); time.Now().Before(end); {
		before, err := cpuOf(t.process.pid())
		if err != nil {
			return err
		}
		if err := rest(ctx, settled); err != nil {
			return err
		}
		after, err := cpuOf(t.process.pid())
		if err != nil {
			return err
		}
		if t.sink.quiet() > settled && after-before < idle {
			return nil
		}
	}
	return fmt.Errorf("it was still at work %v after its start; its log is %s", awake, t.process.log)
}

// collect waits until every change has an event, until nothing comes any more or until the time is over. What has
// not come by then counts as lost or late, as the scenario has it.
func (t *turn) collect(ctx context.Context, limit time.Duration) error {
	want := len(t.all())
	for end := time.Now().Add(limit); time.Now().Before(end); {
		// Events are decoded when enough of them have come: decoding takes time that others need.
		if taken, _ := t.sink.counts(); taken >= want && len(t.outcome().Lost) == 0 || t.sink.quiet() > t.contestant.silent {
			return nil
		}
		if err := t.process.alive(); err != nil {
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

// rest waits, or returns why it must not.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting: %w", context.Cause(ctx))
	}
}

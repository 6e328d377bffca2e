package delivery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/sony/gobreaker/v2"
	"knative.dev/pkg/apis"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery/sender"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

const (
	// trip is how many failures in a row open the breaker.
	trip = 5
	// probeEvery is how long an open breaker waits before one send is tried.
	probeEvery = 5 * time.Second
	// grace is how long a send that is under way may last when we stop.
	grace = 2 * time.Second
	// restAfter is how long a lane without anything to send keeps its clients; their
	// connections are closed before.
	restAfter = 2 * time.Minute
	// unresolved is how long a key waits for a sink that has no address; a
	// change of the source wakes it at once.
	unresolved = time.Minute
)

// lane delivers to one source.
type lane struct {
	d      *Delivery
	queue  *queue
	ramp   *ramp
	cancel context.CancelFunc

	mu       sync.Mutex
	source   *v1alpha1.CDEventSource
	breaker  *gobreaker.TwoStepCircuitBreaker[struct{}]
	attempts attempts
	// undecided says of the keys whose filter cannot be applied why that is.
	undecided map[ledger.Key]string
	last      time.Time
	trouble   string
	opened    time.Time
	// resting lets go of what is kept for the next event, once there was none for long.
	resting *time.Timer
}

func newLane(d *Delivery, s *v1alpha1.CDEventSource) *lane {
	ln := &lane{d: d, source: s, ramp: newRamp(d.WorkersPerSource)}
	ln.queue = &queue{most: d.WorkersPerSource, rest: ln.rest}
	ln.breaker = ln.newBreaker()
	return ln
}

func (ln *lane) newBreaker() *gobreaker.TwoStepCircuitBreaker[struct{}] {
	var b *gobreaker.TwoStepCircuitBreaker[struct{}]
	b = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: 1, Timeout: ln.d.ProbeEvery,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= trip },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			switch to {
			case gobreaker.StateOpen:
				ln.mu.Lock()
				inForce := ln.breaker == b
				if inForce {
					ln.opened = time.Now()
				}
				ln.mu.Unlock()
				if inForce { // else it was the former sink's
					ln.ramp.restart()
				}
			case gobreaker.StateClosed:
				go ln.recovered()
			case gobreaker.StateHalfOpen:
			}
		},
	})
	return b
}

// recovered has everything sent that waits for a sink which takes events again. Where
// tries are counted, each waits for its own time: one that came early could be the last.
func (ln *lane) recovered() {
	ln.mu.Lock()
	uid := ln.source.UID
	if !counts(ln.source) {
		ln.attempts.release(func(attempt) bool { return true })
	}
	ln.mu.Unlock()
	ln.d.enqueueAll(uid)
}

// counts says whether the number of tries decides what becomes of an event: after
// so many it goes to the dead letter sink. Then each try takes place at its time,
// and is a real one; the breaker spares the sink none of them.
func counts(s *v1alpha1.CDEventSource) bool {
	d := s.Spec.Delivery
	return d != nil && d.Retry != nil && (d.DeadLetterSink != nil || s.Status.DeadLetterSinkURI != nil)
}

// start has the lane work until the context ends. Then a send under way has the
// grace to end by itself.
func (ln *lane) start(parent context.Context) {
	ctx, cancel := context.WithCancel(parent)
	ln.cancel = cancel
	sending, abort := context.WithCancel(context.WithoutCancel(parent))
	ln.queue.work = func(key ledger.Key) time.Duration {
		if wait := ln.notYet(key); wait > 0 {
			return wait
		}
		return ln.deliver(ctx, sending, key)
	}
	context.AfterFunc(ctx, func() {
		ln.queue.close()
		time.AfterFunc(grace, abort)
	})
}

func (ln *lane) stop() {
	ln.cancel()
	ln.queue.close()
	ln.queue.wait()
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.resting != nil {
		ln.resting.Stop()
	}
}

// rest is called when nothing is to be done. Connections have been closed by the time
// that their clients are let go of.
func (ln *lane) rest() {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.resting != nil {
		ln.resting.Reset(restAfter)
		return
	}
	ln.resting = time.AfterFunc(restAfter, func() {
		if ln.queue.idle() {
			ln.d.Sender.Forget(ln.current().UID)
		}
	})
}

// notYet is how long a key must not be tried, whatever woke it.
func (ln *lane) notYet(key ledger.Key) time.Duration {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return ln.attempts.wait(key)
}

func (ln *lane) current() *v1alpha1.CDEventSource {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return ln.source
}

func (ln *lane) label() string { s := ln.current(); return s.Namespace + "/" + s.Name }

func (ln *lane) report() (time.Time, string) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	trouble := ln.trouble
	for _, why := range ln.undecided {
		if trouble == "" {
			trouble = "events are waiting, because it is not known whether they pass the filters: " + why
		}
	}
	return ln.last, trouble
}

// deliver sends what is owed about one object until something fails. It returns
// after how long to try again, 0 when nothing is owed any more.
func (ln *lane) deliver(ctx, sending context.Context, key ledger.Key) time.Duration {
	for {
		source := ln.current()
		if ctx.Err() != nil || !ln.d.Leads(key.NamespacedName()) {
			return 0 // the next leader reads from the ledger what is owed
		}
		owed := ln.d.Ledger.Owed(key, source.UID)
		if len(owed) == 0 {
			ln.settled(key)
			return 0
		}
		then := goOn
		for _, o := range owed {
			if ctx.Err() != nil || !ln.d.Leads(key.NamespacedName()) {
				return 0
			}
			if then = ln.one(ctx, sending, key, o); then != goOn {
				break
			}
		}
		if then.owed && !then.anew {
			return then.wait
		}
	}
}

// next is how it goes on after one event.
type next struct {
	// owed says that the event still is, so that none after it may be sent.
	owed bool
	// wait is after how long to try again; 0 for not before somebody asks for it.
	wait time.Duration
	// anew is to try again at once: the source was changed meanwhile.
	anew bool
}

var (
	goOn     = next{}
	stopping = next{owed: true}
	changed  = next{owed: true, anew: true}
)

func after(wait time.Duration) next { return next{owed: true, wait: wait} }

// plan is where an event is to be sent and how, by a source as it was at that time.
type plan struct {
	source *v1alpha1.CDEventSource
	ev     event.Event
	to     sender.Target
	policy sender.Policy
}

// plan says how an event is to be sent; false where it is not to be sent now.
func (ln *lane) plan(ctx context.Context, source *v1alpha1.CDEventSource, key ledger.Key, o ledger.Owed) (plan, next, bool) {
	p := plan{source: source}
	var err error
	if p.ev, err = ln.render(o); err != nil {
		// It was rendered when it was journaled; only another version of
		// this program can have written what this one cannot read.
		logging.FromContext(ctx).Errorw("A journaled event cannot be rendered and is dropped",
			"source", ln.label(), "subject", key.String(), "sequence", o.Transition.Sequence, "error", err)
		ln.d.Ledger.GiveUp(o.Line, source.UID, o.Transition.Sequence, ledger.DroppedUnreadable)
		return p, goOn, false
	}
	if u := v1alpha1.UnreadIn(source.Unread, "spec"); u != nil {
		ln.failed(u.Error())
		return p, after(unresolved), false
	}
	if o.Undecided {
		ok, err := ln.d.Passes(source, p.ev)
		ln.decide(key, err)
		switch {
		case err != nil:
			return p, after(unresolved), false
		case !ok:
			ln.d.Ledger.Acknowledge(o.Line, source.UID, o.Transition.Sequence)
			return p, goOn, false
		}
	}
	if source.Status.ObservedGeneration != source.Generation {
		return p, after(unresolved), false // the address is that of the former spec; the new one wakes it
	}
	var ok bool
	if p.to, ok = target(source, source.Status.SinkURI, source.Status.SinkCACerts, credentials.OfSink(source)); !ok {
		ln.failed("the sink has no address yet; see the condition SinkProvided")
		return p, after(unresolved), false
	}
	if p.policy, err = sender.NewPolicy(source.Spec.Delivery); err != nil {
		ln.failed(err.Error())
		return p, after(unresolved), false
	}
	if wait := ln.pausedFor(p.to.URL); wait > 0 {
		return p, after(wait), false
	}
	return p, goOn, true
}

// one delivers one event.
func (ln *lane) one(ctx, sending context.Context, key ledger.Key, o ledger.Owed) next {
	p, then, ok := ln.plan(ctx, ln.current(), key, o)
	if !ok {
		return then
	}
	if !ln.ramp.enter(ctx) {
		return stopping
	}
	grows := false
	defer func() { ln.ramp.leave(grows) }()
	if !ln.d.Leads(key.NamespacedName()) {
		return stopping
	}
	// While this one waited for room, the source may have been changed, or somebody else
	// was told to leave the sink alone.
	if now := ln.current(); now != p.source {
		if p, then, ok = ln.plan(ctx, now, key, o); !ok {
			return then
		}
	} else if wait := ln.pausedFor(p.to.URL); wait > 0 {
		return after(wait)
	}
	breaker := ln.guard()
	done, err := breaker.Allow()
	if err != nil {
		if !counts(p.source) {
			return after(ln.untilProbe())
		}
		done = func(err error) { ln.unguarded(breaker, err) }
	}
	out := ln.d.Sender.Send(sending, p.to, p.ev, p.policy)
	ln.d.Metrics.Attempt(ln.label(), classLabel(out))
	if sending.Err() != nil && out.Class != sender.Acknowledged {
		done(nil)
		return stopping
	}
	if out.RetryAfter > 0 {
		ln.pause(p.to.URL, out.RetryAfter)
	}
	done(health(out))
	// Tries that are counted must not wait for each other because a sink hangs.
	grows = out.Class == sender.Acknowledged || counts(p.source) && out.RetryAfter == 0
	if out.Class == sender.Acknowledged {
		ln.delivered(o, p.ev)
		ln.d.Ledger.Acknowledge(o.Line, p.source.UID, o.Transition.Sequence)
		return goOn
	}
	if !ln.d.Leads(key.NamespacedName()) {
		return stopping // what becomes of it is for the next leader to decide
	}
	tried, now, ok := ln.tried(p.source, key, o, out)
	if !ok {
		return changed // what the former sink answers decides nothing for the new one
	}
	p.source = now // its dead letter sink may be another one
	then = ln.refused(ctx, sending, p, key, o, out, tried)
	if then.owed {
		ln.hold(key, then.wait)
	}
	return then
}

// render makes the event of what is owed, where that can be read.
func (ln *lane) render(o ledger.Owed) (event.Event, error) {
	if o.Unreadable != nil {
		return event.Event{}, o.Unreadable
	}
	return ln.d.Render(o.Profile, o.Subject, o.Transition)
}

// refused decides what becomes of an event that the sink did not take.
func (ln *lane) refused(ctx, sending context.Context, p plan, key ledger.Key, o ledger.Owed, out sender.Outcome, tried attempt) next {
	source, ev, policy := p.source, p.ev, p.policy
	poison := out.Class == sender.Poison
	letters, has := target(source, source.Status.DeadLetterSinkURI, source.Status.DeadLetterSinkCACerts, credentials.OfDeadLetterSink(source))
	exhausted := out.Class == sender.Retry && policy.Exhausted(tried.failures)
	again := max(policy.Backoff(tried.tries), out.RetryAfter)
	switch {
	case has && (poison || exhausted):
		if wait := ln.pausedFor(letters.URL); wait > 0 {
			return after(max(again, wait))
		}
		answer := ln.d.Sender.Send(sending, letters, sender.DeadLetter(ev, p.to, out), policy)
		if answer.Class == sender.Acknowledged {
			logging.FromContext(ctx).Warnw("Event went to the dead letter sink",
				"source", ln.label(), "subject", key.String(), "type", ev.Type(), "id", ev.ID(), "error", out.Err)
			ln.d.Metrics.DeadLetter(ln.label())
			ln.d.Ledger.Acknowledge(o.Line, source.UID, o.Transition.Sequence)
			if poison {
				ln.failed("") // the sink is well, and nothing is lost
			}
			return goOn
		}
		if answer.RetryAfter > 0 {
			ln.pause(letters.URL, answer.RetryAfter)
		}
		again = max(again, answer.RetryAfter)
		ln.failed(fmt.Sprintf("%v; and the dead letter sink: %v", out.Err, answer.Err))
	case poison && source.Spec.Delivery != nil && source.Spec.Delivery.DeadLetterSink != nil:
		// It is asked for and has no address yet: the event waits for it.
		return after(unresolved)
	case poison:
		logging.FromContext(ctx).Errorw("Event was refused for good and is dropped; a dead letter sink would keep it",
			"source", ln.label(), "subject", key.String(), "type", ev.Type(), "id", ev.ID(), "error", out.Err)
		ln.d.Ledger.GiveUp(o.Line, source.UID, o.Transition.Sequence, ledger.DroppedRejected)
		return goOn
	}
	logging.FromContext(ctx).Infow("Event is not delivered yet",
		"source", ln.label(), "subject", key.String(), "type", ev.Type(), "attempts", tried.tries, "error", out.Err)
	if ln.guard().State() != gobreaker.StateClosed && out.RetryAfter == 0 && !counts(source) {
		// The breaker spares the sink; the next probe must not wait longer.
		return after(min(again, ln.untilProbe()))
	}
	return after(again)
}

// guard is the breaker that is in force.
func (ln *lane) guard() *gobreaker.TwoStepCircuitBreaker[struct{}] {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return ln.breaker
}

// unguarded takes note of a try that the breaker would not have made. A sink that
// takes an event is well, though it was not asked for as a probe.
func (ln *lane) unguarded(breaker *gobreaker.TwoStepCircuitBreaker[struct{}], err error) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if err == nil && ln.breaker == breaker {
		ln.breaker = ln.newBreaker()
	}
}

// tried notes a failure, and returns the source as it is now: false where it was
// changed such that the failure says nothing of it.
func (ln *lane) tried(of *v1alpha1.CDEventSource, key ledger.Key, o ledger.Owed, out sender.Outcome) (attempt, *v1alpha1.CDEventSource, bool) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if mended(of, ln.source) || v1alpha1.UnreadIn(ln.source.Unread, "spec") != nil {
		return attempt{}, ln.source, false
	}
	ln.trouble = out.Err.Error()
	return ln.attempts.failed(key, o, out), ln.source, true
}

func (ln *lane) hold(key ledger.Key, wait time.Duration) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.attempts.hold(key, wait)
}

// pause leaves a sink alone that asks for it, with whatever is owed to it. Afterwards
// it gets one event at first.
func (ln *lane) pause(url string, asked time.Duration) {
	ln.mu.Lock()
	ln.attempts.pause(url, asked)
	ln.mu.Unlock()
	ln.ramp.restart()
}

func (ln *lane) pausedFor(url string) time.Duration {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return ln.attempts.pausedFor(url)
}

// decide notes whether the filter could be applied to the event at the head of a key.
func (ln *lane) decide(key ledger.Key, err error) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if delete(ln.undecided, key); err == nil {
		return
	}
	if ln.undecided == nil {
		ln.undecided = map[ledger.Key]string{}
	}
	ln.undecided[key] = err.Error()
}

func (ln *lane) failed(trouble string) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.trouble = trouble
}

func (ln *lane) delivered(o ledger.Owed, ev event.Event) {
	now := time.Now()
	ln.mu.Lock()
	ln.last, ln.trouble = now, ""
	ln.mu.Unlock()
	ln.d.Metrics.Delivered(ln.label(), ev.Type(), now.Sub(o.Transition.Time))
	if ln.d.Incomplete != nil && ln.d.Incomplete(ev) {
		ln.d.Metrics.Incomplete(ln.label())
	}
}

// untilProbe is how long to wait while the breaker is open; spread, so that not
// all keys come at once.
func (ln *lane) untilProbe() time.Duration {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	left := max(time.Until(ln.opened.Add(ln.d.ProbeEvery)), 100*time.Millisecond)
	return left + time.Duration(rand.Int64N(int64(time.Second))) //nolint:gosec // no secret, only spread
}

var errUnhealthy = errors.New("the sink does not accept events")

// health is what the breaker counts: a sink that refuses one event is well, and
// so is one that was not asked for want of credentials.
func health(out sender.Outcome) error {
	if out.Class == sender.Acknowledged || out.Class == sender.Poison || out.Class == sender.Unauthorized && out.Status == 0 {
		return nil
	}
	return errUnhealthy
}

func target(s *v1alpha1.CDEventSource, uri *apis.URL, ca *string, show credentials.Want) (sender.Target, bool) {
	if uri == nil || uri.Host == "" {
		return sender.Target{}, false
	}
	t := sender.Target{URL: uri.String(), Source: s.UID, Show: show}
	if ca != nil {
		t.CACerts = *ca
	}
	return t, true
}

func classLabel(out sender.Outcome) string {
	if out.Status == 0 {
		return "none"
	}
	return fmt.Sprintf("%dxx", out.Status/100)
}

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
	// restAfter is how long a source queue without anything to send keeps its clients; their
	// connections are closed before.
	restAfter = 2 * time.Minute
	// unresolved is how long a key waits for a sink that has no address; a
	// change of the source wakes it at once.
	unresolved = time.Minute
)

// queue delivers to one source.
type sourceQueue struct {
	d       *Delivery
	workers *workers
	ramp    *ramp
	cancel  context.CancelFunc

	mu      sync.Mutex
	source  *v1alpha1.CDEventSource
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	retries retries
	// undecided says of the keys whose filter cannot be applied why that is.
	undecided map[ledger.Key]string
	last      time.Time
	trouble   string
	opened    time.Time
	// resting lets go of what is kept for the next event, once there was none for long.
	resting *time.Timer
}

func newSourceQueue(d *Delivery, s *v1alpha1.CDEventSource) *sourceQueue {
	q := &sourceQueue{d: d, source: s, ramp: newRamp(d.WorkersPerSource)}
	q.workers = &workers{most: d.WorkersPerSource, rest: q.rest}
	q.breaker = q.newBreaker()
	return q
}

func (q *sourceQueue) newBreaker() *gobreaker.TwoStepCircuitBreaker[struct{}] {
	var b *gobreaker.TwoStepCircuitBreaker[struct{}]
	b = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: 1, Timeout: q.d.ProbeEvery,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= trip },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			switch to {
			case gobreaker.StateOpen:
				q.mu.Lock()
				inForce := q.breaker == b
				if inForce {
					q.opened = time.Now()
				}
				q.mu.Unlock()
				if inForce { // else it was the former sink's
					q.ramp.restart()
				}
			case gobreaker.StateClosed:
				go q.recovered()
			case gobreaker.StateHalfOpen:
			}
		},
	})
	return b
}

// recovered has everything sent that waits for a sink which takes events again. Where
// tries are counted, each waits for its own time: one that came early could be the last.
func (q *sourceQueue) recovered() {
	q.mu.Lock()
	uid := q.source.UID
	if !counts(q.source) {
		q.retries.release(func(retry) bool { return true })
	}
	q.mu.Unlock()
	q.d.enqueueAll(uid)
}

// counts says whether the number of tries decides what becomes of an event: after
// so many it goes to the dead letter sink. Then each try takes place at its time,
// and is a real one; the breaker spares the sink none of them.
func counts(s *v1alpha1.CDEventSource) bool {
	d := s.Spec.Delivery
	return d != nil && d.Retry != nil && (d.DeadLetterSink != nil || s.Status.DeadLetterSinkURI != nil)
}

// start has the queue work until the context ends. Then a send under way has the
// grace to end by itself.
func (q *sourceQueue) start(parent context.Context) {
	ctx, cancel := context.WithCancel(parent)
	q.cancel = cancel
	sending, abort := context.WithCancel(context.WithoutCancel(parent))
	q.workers.work = func(key ledger.Key) time.Duration {
		if wait := q.notYet(key); wait > 0 {
			return wait
		}
		return q.deliver(ctx, sending, key)
	}
	context.AfterFunc(ctx, func() {
		q.workers.close()
		time.AfterFunc(grace, abort)
	})
}

func (q *sourceQueue) stop() {
	q.cancel()
	q.workers.close()
	q.workers.wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.resting != nil {
		q.resting.Stop()
	}
}

// rest is called when nothing is to be done. Connections have been closed by the time
// that their clients are let go of.
func (q *sourceQueue) rest() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.resting != nil {
		q.resting.Reset(restAfter)
		return
	}
	q.resting = time.AfterFunc(restAfter, func() {
		if q.workers.idle() {
			q.d.Sender.Forget(q.current().UID)
		}
	})
}

// notYet is how long a key must not be tried, whatever woke it.
func (q *sourceQueue) notYet(key ledger.Key) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.retries.wait(key)
}

func (q *sourceQueue) current() *v1alpha1.CDEventSource {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.source
}

func (q *sourceQueue) label() string { s := q.current(); return s.Namespace + "/" + s.Name }

func (q *sourceQueue) report() (time.Time, string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	trouble := q.trouble
	for _, why := range q.undecided {
		if trouble == "" {
			trouble = "events are waiting, because it is not known whether they pass the filters: " + why
		}
	}
	return q.last, trouble
}

// deliver sends what is owed about one object until something fails. It returns
// after how long to try again, 0 when nothing is owed any more.
func (q *sourceQueue) deliver(ctx, sending context.Context, key ledger.Key) time.Duration {
	for {
		source := q.current()
		if ctx.Err() != nil || !q.d.Leads(key.NamespacedName()) {
			return 0 // the next leader reads from the ledger what is owed
		}
		owed := q.d.Ledger.Owed(key, source.UID)
		if len(owed) == 0 {
			q.settled(key)
			return 0
		}
		then := goOn
		for _, o := range owed {
			if ctx.Err() != nil || !q.d.Leads(key.NamespacedName()) {
				return 0
			}
			if then = q.one(ctx, sending, key, o); then != goOn {
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
func (q *sourceQueue) plan(ctx context.Context, source *v1alpha1.CDEventSource, key ledger.Key, o ledger.Owed) (plan, next, bool) {
	p := plan{source: source}
	var err error
	if p.ev, err = q.render(o); err != nil {
		// It was rendered when it was journaled; only another version of
		// this program can have written what this one cannot read.
		logging.FromContext(ctx).Errorw("A journaled event cannot be rendered and is dropped",
			"source", q.label(), "subject", key.String(), "sequence", o.Transition.Sequence, "error", err)
		q.d.Ledger.GiveUp(o.Line, source.UID, o.Transition.Sequence, ledger.DroppedUnreadable)
		return p, goOn, false
	}
	if u := v1alpha1.UnreadIn(source.Unread, "spec"); u != nil {
		q.failed(u.Error())
		return p, after(unresolved), false
	}
	if o.Undecided {
		ok, err := q.d.Passes(source, p.ev)
		q.decide(key, err)
		switch {
		case err != nil:
			return p, after(unresolved), false
		case !ok:
			q.d.Ledger.Acknowledge(o.Line, source.UID, o.Transition.Sequence)
			return p, goOn, false
		}
	}
	if source.Status.ObservedGeneration != source.Generation {
		return p, after(unresolved), false // the address is that of the former spec; the new one wakes it
	}
	var ok bool
	if p.to, ok = target(source, source.Status.SinkURI, source.Status.SinkCACerts, credentials.OfSink(source)); !ok {
		q.failed("the sink has no address yet; see the condition SinkProvided")
		return p, after(unresolved), false
	}
	if p.policy, err = sender.NewPolicy(source.Spec.Delivery); err != nil {
		q.failed(err.Error())
		return p, after(unresolved), false
	}
	if wait := q.pausedFor(p.to.URL); wait > 0 {
		return p, after(wait), false
	}
	return p, goOn, true
}

// one delivers one event.
func (q *sourceQueue) one(ctx, sending context.Context, key ledger.Key, o ledger.Owed) next {
	p, then, ok := q.plan(ctx, q.current(), key, o)
	if !ok {
		return then
	}
	if !q.ramp.enter(ctx) {
		return stopping
	}
	grows := false
	defer func() { q.ramp.leave(grows) }()
	if !q.d.Leads(key.NamespacedName()) {
		return stopping
	}
	// While this one waited for room, the source may have been changed, or somebody else
	// was told to leave the sink alone.
	if now := q.current(); now != p.source {
		if p, then, ok = q.plan(ctx, now, key, o); !ok {
			return then
		}
	} else if wait := q.pausedFor(p.to.URL); wait > 0 {
		return after(wait)
	}
	breaker := q.guard()
	done, err := breaker.Allow()
	if err != nil {
		if !counts(p.source) {
			return after(q.untilProbe())
		}
		done = func(err error) { q.unguarded(breaker, err) }
	}
	out := q.d.Sender.Send(sending, p.to, p.ev, p.policy)
	q.d.Metrics.Attempt(q.label(), classLabel(out))
	if sending.Err() != nil && out.Class != sender.Acknowledged {
		done(nil)
		return stopping
	}
	if out.RetryAfter > 0 {
		q.pause(p.to.URL, out.RetryAfter)
	}
	done(health(out))
	// Tries that are counted must not wait for each other because a sink hangs.
	grows = out.Class == sender.Acknowledged || counts(p.source) && out.RetryAfter == 0
	if out.Class == sender.Acknowledged {
		q.delivered(o, p.ev)
		q.d.Ledger.Acknowledge(o.Line, p.source.UID, o.Transition.Sequence)
		return goOn
	}
	if !q.d.Leads(key.NamespacedName()) {
		return stopping // what becomes of it is for the next leader to decide
	}
	tried, now, ok := q.tried(p.source, key, o, out)
	if !ok {
		return changed // what the former sink answers decides nothing for the new one
	}
	p.source = now // its dead letter sink may be another one
	then = q.refused(ctx, sending, p, key, o, out, tried)
	if then.owed {
		q.hold(key, then.wait)
	}
	return then
}

// render makes the event of what is owed, where that can be read.
func (q *sourceQueue) render(o ledger.Owed) (event.Event, error) {
	if o.Unreadable != nil {
		return event.Event{}, o.Unreadable
	}
	return q.d.Render(o.Profile, o.Subject, o.Transition)
}

// refused decides what becomes of an event that the sink did not take.
func (q *sourceQueue) refused(ctx, sending context.Context, p plan, key ledger.Key, o ledger.Owed, out sender.Outcome, tried retry) next {
	source, ev, policy := p.source, p.ev, p.policy
	poison := out.Class == sender.Poison
	letters, has := target(source, source.Status.DeadLetterSinkURI, source.Status.DeadLetterSinkCACerts, credentials.OfDeadLetterSink(source))
	exhausted := out.Class == sender.Retry && policy.Exhausted(tried.failures)
	again := max(policy.Backoff(tried.tries), out.RetryAfter)
	switch {
	case has && (poison || exhausted):
		if wait := q.pausedFor(letters.URL); wait > 0 {
			return after(max(again, wait))
		}
		answer := q.d.Sender.Send(sending, letters, sender.DeadLetter(ev, p.to, out), policy)
		if answer.Class == sender.Acknowledged {
			logging.FromContext(ctx).Warnw("Event went to the dead letter sink",
				"source", q.label(), "subject", key.String(), "type", ev.Type(), "id", ev.ID(), "error", out.Err)
			q.d.Metrics.DeadLetter(q.label())
			q.d.Ledger.Acknowledge(o.Line, source.UID, o.Transition.Sequence)
			if poison {
				q.failed("") // the sink is well, and nothing is lost
			}
			return goOn
		}
		if answer.RetryAfter > 0 {
			q.pause(letters.URL, answer.RetryAfter)
		}
		again = max(again, answer.RetryAfter)
		q.failed(fmt.Sprintf("%v; and the dead letter sink: %v", out.Err, answer.Err))
	case poison && source.Spec.Delivery != nil && source.Spec.Delivery.DeadLetterSink != nil:
		// It is asked for and has no address yet: the event waits for it.
		return after(unresolved)
	case poison:
		logging.FromContext(ctx).Errorw("Event was refused for good and is dropped; a dead letter sink would keep it",
			"source", q.label(), "subject", key.String(), "type", ev.Type(), "id", ev.ID(), "error", out.Err)
		q.d.Ledger.GiveUp(o.Line, source.UID, o.Transition.Sequence, ledger.DroppedRejected)
		return goOn
	}
	logging.FromContext(ctx).Infow("Event is not delivered yet",
		"source", q.label(), "subject", key.String(), "type", ev.Type(), "attempts", tried.tries, "error", out.Err)
	if q.guard().State() != gobreaker.StateClosed && out.RetryAfter == 0 && !counts(source) {
		// The breaker spares the sink; the next probe must not wait longer.
		return after(min(again, q.untilProbe()))
	}
	return after(again)
}

// guard is the breaker that is in force.
func (q *sourceQueue) guard() *gobreaker.TwoStepCircuitBreaker[struct{}] {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.breaker
}

// unguarded takes note of a try that the breaker would not have made. A sink that
// takes an event is well, though it was not asked for as a probe.
func (q *sourceQueue) unguarded(breaker *gobreaker.TwoStepCircuitBreaker[struct{}], err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err == nil && q.breaker == breaker {
		q.breaker = q.newBreaker()
	}
}

// tried notes a failure, and returns the source as it is now: false where it was
// changed such that the failure says nothing of it.
func (q *sourceQueue) tried(of *v1alpha1.CDEventSource, key ledger.Key, o ledger.Owed, out sender.Outcome) (retry, *v1alpha1.CDEventSource, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if mended(of, q.source) || v1alpha1.UnreadIn(q.source.Unread, "spec") != nil {
		return retry{}, q.source, false
	}
	q.trouble = out.Err.Error()
	return q.retries.failed(key, o, out), q.source, true
}

func (q *sourceQueue) hold(key ledger.Key, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.retries.hold(key, wait)
}

// pause leaves a sink alone that asks for it, with whatever is owed to it. Afterwards
// it gets one event at first.
func (q *sourceQueue) pause(url string, asked time.Duration) {
	q.mu.Lock()
	q.retries.pause(url, asked)
	q.mu.Unlock()
	q.ramp.restart()
}

func (q *sourceQueue) pausedFor(url string) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.retries.pausedFor(url)
}

// decide notes whether the filter could be applied to the event at the head of a key.
func (q *sourceQueue) decide(key ledger.Key, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if delete(q.undecided, key); err == nil {
		return
	}
	if q.undecided == nil {
		q.undecided = map[ledger.Key]string{}
	}
	q.undecided[key] = err.Error()
}

func (q *sourceQueue) failed(trouble string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.trouble = trouble
}

func (q *sourceQueue) delivered(o ledger.Owed, ev event.Event) {
	now := time.Now()
	q.mu.Lock()
	q.last, q.trouble = now, ""
	q.mu.Unlock()
	q.d.Metrics.Delivered(q.label(), ev.Type(), now.Sub(o.Transition.Time))
	if q.d.Incomplete != nil && q.d.Incomplete(ev) {
		q.d.Metrics.Incomplete(q.label())
	}
}

// untilProbe is how long to wait while the breaker is open; spread, so that not
// all keys come at once.
func (q *sourceQueue) untilProbe() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := max(time.Until(q.opened.Add(q.d.ProbeEvery)), 100*time.Millisecond)
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

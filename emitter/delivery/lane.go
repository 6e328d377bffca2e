package delivery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/sony/gobreaker/v2"
	"k8s.io/client-go/util/workqueue"
	"knative.dev/pkg/apis"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"

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
	// unresolved is how long a key waits for a sink that has no address; a
	// change of the source wakes it at once.
	unresolved = time.Minute
)

// lane delivers to one source.
type lane struct {
	d       *Delivery
	queue   workqueue.TypedDelayingInterface[ledger.Key]
	ramp    *ramp
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu       sync.Mutex
	source   *v1alpha1.CDEventSource
	failures map[ledger.Key]failure
	// undecided says of the keys whose filter cannot be applied why that is.
	undecided map[ledger.Key]string
	last      time.Time
	trouble   string
	opened    time.Time
	// kept says that the last answer has events kept, however often they were tried.
	kept bool
}

// failure counts attempts for the event at the head of a key's queue.
type failure struct {
	line     string
	sequence int64
	count    int
}

func newLane(d *Delivery, s *v1alpha1.CDEventSource) *lane {
	ln := &lane{
		d: d, source: s, failures: map[ledger.Key]failure{}, undecided: map[ledger.Key]string{},
		queue: workqueue.NewTypedDelayingQueue[ledger.Key](), ramp: newRamp(d.WorkersPerSource),
	}
	ln.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: s.Namespace + "/" + s.Name, MaxRequests: 1, Timeout: d.ProbeEvery,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= trip },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			switch to {
			case gobreaker.StateOpen:
				ln.mu.Lock()
				ln.opened = time.Now()
				ln.mu.Unlock()
				ln.ramp.restart()
			case gobreaker.StateClosed:
				// The sink takes events again: nobody waits for his own turn.
				go d.enqueueAll(s.UID)
			case gobreaker.StateHalfOpen:
			}
		},
	})
	return ln
}

// start runs the workers. When the context ends, a send under way has the grace
// to end by itself.
func (ln *lane) start(parent context.Context) {
	ctx, cancel := context.WithCancel(parent)
	ln.cancel = cancel
	sending, abort := context.WithCancel(context.WithoutCancel(parent))
	for range ln.d.WorkersPerSource {
		ln.wg.Go(func() {
			for ln.next(ctx, sending) {
			}
		})
	}
	context.AfterFunc(ctx, func() {
		ln.queue.ShutDown()
		time.AfterFunc(grace, abort)
	})
}

func (ln *lane) stop() {
	ln.cancel()
	ln.wg.Wait()
}

// swap takes over a changed source and returns the former one.
func (ln *lane) swap(s *v1alpha1.CDEventSource) *v1alpha1.CDEventSource {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	before := ln.source
	ln.source = s
	return before
}

// addressed says whether a change lets a send succeed that failed before.
func addressed(before, after *v1alpha1.CDEventSource) bool {
	shown := func(s *v1alpha1.CDEventSource) bool {
		return s.Status.GetCondition(v1alpha1.SourceConditionCredentialsReady).IsTrue()
	}
	return before.Generation != after.Generation || before.Status.ObservedGeneration != after.Status.ObservedGeneration ||
		before.Status.SinkURI.String() != after.Status.SinkURI.String() ||
		!shown(before) && shown(after)
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
			trouble = "events wait, as it is not known whether they are wanted: " + why
		}
	}
	return ln.last, trouble
}

func (ln *lane) next(ctx, sending context.Context) bool {
	key, shutdown := ln.queue.Get()
	if shutdown {
		return false
	}
	defer ln.queue.Done(key)
	if again := ln.deliver(ctx, sending, key); again > 0 {
		ln.queue.AddAfter(key, again)
	}
	return true
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
		for _, o := range owed {
			if ctx.Err() != nil || !ln.d.Leads(key.NamespacedName()) {
				return 0
			}
			if again := ln.one(ctx, sending, ln.current(), key, o); again > 0 {
				return again
			}
		}
	}
}

// one delivers one event. It returns 0 when the event is off our hands.
func (ln *lane) one(ctx, sending context.Context, source *v1alpha1.CDEventSource, key ledger.Key, o ledger.Owed) time.Duration {
	ev, err := ln.d.Render(o.Profile, o.Subject, o.Transition)
	if err != nil {
		// It was rendered when it was journaled; only another version of
		// this program can have written what this one cannot read.
		logging.FromContext(ctx).Errorw("A journaled event cannot be rendered and is given up",
			"source", ln.label(), "subject", key.String(), "sequence", o.Transition.Sequence, "error", err)
		ln.d.Ledger.GiveUp(o.Line, source.UID, o.Transition.Sequence, ledger.DroppedUnreadable)
		return 0
	}
	if o.Undecided {
		ok, err := ln.d.Passes(source, ev)
		ln.decide(key, err)
		switch {
		case err != nil:
			return unresolved
		case !ok:
			ln.d.Ledger.Acknowledge(o.Line, source.UID, o.Transition.Sequence)
			return 0
		}
	}
	if source.Status.ObservedGeneration != source.Generation {
		return unresolved // the address is that of the former spec; the new one wakes it
	}
	to, ok := target(source, source.Status.SinkURI, source.Status.SinkCACerts, credentials.OfSink(source))
	if !ok {
		ln.failed("the sink has no address yet; see the condition SinkProvided")
		return unresolved
	}
	policy, err := sender.NewPolicy(source.Spec.Delivery)
	if err != nil {
		ln.failed(err.Error())
		return unresolved
	}
	if !ln.ramp.enter(ctx) {
		return 0 // we are stopping; it stays owed
	}
	taken := false
	defer func() { ln.ramp.leave(taken) }()
	done, err := ln.breaker.Allow()
	if err != nil {
		return ln.refusedByBreaker(ctx, sending, source, key, o, ev, to, policy)
	}
	out := ln.d.Sender.Send(sending, to, ev, policy)
	ln.d.Metrics.Attempt(ln.label(), classLabel(out))
	if sending.Err() != nil && out.Class != sender.Acknowledged {
		done(nil)
		return 0 // we are stopping; it stays owed
	}
	done(health(out))
	ln.keep(out.Class == sender.Unauthorized || out.Class == sender.Redirected)
	if taken = out.Class == sender.Acknowledged; taken {
		ln.delivered(o, ev)
		ln.d.Ledger.Acknowledge(o.Line, source.UID, o.Transition.Sequence)
		return 0
	}
	if !ln.d.Leads(key.NamespacedName()) {
		return 0 // what becomes of it is for the next leader to decide
	}
	return ln.refused(ctx, sending, source, key, o, ev, to, policy, out)
}

// refusedByBreaker: without a try, the event waits for the sink to be well. Where
// a number of retries leads to a dead letter sink, it counts as one: the breaker
// must not keep an event from the place that is meant for it. Nor must it send an
// event there that the sink's answers would have kept.
func (ln *lane) refusedByBreaker(ctx, sending context.Context, source *v1alpha1.CDEventSource, key ledger.Key, o ledger.Owed,
	ev event.Event, to sender.Target, policy sender.Policy,
) time.Duration {
	if source.Status.DeadLetterSinkURI == nil || policy.Retries == sender.Unlimited || ln.keeps() {
		return ln.untilProbe()
	}
	_, trouble := ln.report()
	out := sender.Outcome{Class: sender.Retry, Err: fmt.Errorf("not tried, as the sink takes no events at present: %s", trouble)}
	return ln.refused(ctx, sending, source, key, o, ev, to, policy, out)
}

// refused decides what becomes of an event that the sink did not take.
func (ln *lane) refused(ctx, sending context.Context, source *v1alpha1.CDEventSource, key ledger.Key, o ledger.Owed,
	ev event.Event, refusedBy sender.Target, policy sender.Policy, out sender.Outcome,
) time.Duration {
	count := ln.count(key, o)
	if out.Status != 0 || ln.breaker.State() == gobreaker.StateClosed {
		ln.failed(out.Err.Error())
	}
	poison := out.Class == sender.Poison
	letters, has := target(source, source.Status.DeadLetterSinkURI, source.Status.DeadLetterSinkCACerts, credentials.OfDeadLetterSink(source))
	exhausted := policy.Exhausted(count) && (out.Class == sender.Retry || poison)
	switch {
	case has && (poison || exhausted):
		answer := ln.d.Sender.Send(sending, letters, sender.DeadLetter(ev, refusedBy, out), policy)
		if answer.Class == sender.Acknowledged {
			logging.FromContext(ctx).Warnw("Event went to the dead letter sink",
				"source", ln.label(), "subject", key.String(), "type", ev.Type(), "id", ev.ID(), "error", out.Err)
			ln.d.Metrics.DeadLetter(ln.label())
			ln.d.Ledger.Acknowledge(o.Line, source.UID, o.Transition.Sequence)
			if poison {
				ln.failed("") // the sink is well, and nothing is lost
			}
			return 0
		}
		ln.failed(fmt.Sprintf("%v; and the dead letter sink: %v", out.Err, answer.Err))
	case poison && source.Spec.Delivery != nil && source.Spec.Delivery.DeadLetterSink != nil:
		// It is asked for and has no address yet: the event waits for it.
		return unresolved
	case poison:
		logging.FromContext(ctx).Errorw("Event was refused for good and is given up; a dead letter sink would keep it",
			"source", ln.label(), "subject", key.String(), "type", ev.Type(), "id", ev.ID(), "error", out.Err)
		ln.d.Ledger.GiveUp(o.Line, source.UID, o.Transition.Sequence, ledger.DroppedRejected)
		return 0
	}
	logging.FromContext(ctx).Infow("Event is not delivered yet",
		"source", ln.label(), "subject", key.String(), "type", ev.Type(), "attempts", count, "error", out.Err)
	again := max(policy.Backoff(count), out.RetryAfter)
	if ln.breaker.State() != gobreaker.StateClosed && out.RetryAfter == 0 {
		// The breaker spares the sink; the next probe must not wait longer.
		return min(again, ln.untilProbe())
	}
	return again
}

func (ln *lane) keep(kept bool) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.kept = kept
}

func (ln *lane) keeps() bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return ln.kept
}

// count notes one more failure of the event at the head of a key.
func (ln *lane) count(key ledger.Key, o ledger.Owed) int {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	f := ln.failures[key]
	if f.line != o.Line || f.sequence != o.Transition.Sequence {
		f = failure{line: o.Line, sequence: o.Transition.Sequence}
	}
	f.count++
	ln.failures[key] = f
	return f.count
}

func (ln *lane) settled(key ledger.Key) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	delete(ln.failures, key)
	delete(ln.undecided, key)
}

// decide notes whether the filter could be applied to the event at the head of a key.
func (ln *lane) decide(key ledger.Key, err error) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if delete(ln.undecided, key); err != nil {
		ln.undecided[key] = err.Error()
	}
}

// yield forgets the failures of objects that another process leads for now.
func (ln *lane) yield(b reconciler.Bucket) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	maps.DeleteFunc(ln.failures, func(key ledger.Key, _ failure) bool { return b.Has(key.NamespacedName()) })
	maps.DeleteFunc(ln.undecided, func(key ledger.Key, _ string) bool { return b.Has(key.NamespacedName()) })
	if len(ln.failures) == 0 {
		ln.trouble = ""
	}
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

var errUnhealthy = errors.New("the sink does not take events")

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

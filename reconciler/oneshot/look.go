// SPDX-License-Identifier: Apache-2.0

package oneshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
)

// look is one look at a Service, with everything that a resident controller keeps.
type look struct {
	c       *Core
	ctx     context.Context //nolint:containedctx // for what the parts call back
	service types.NamespacedName
	key     ledger.Key

	seen
	ledger   *ledger.Ledger
	filters  *route.Filters
	delivery *delivery.Delivery
	// namespace are the labels of the namespace, nil until they are read.
	namespace *labelled

	// superseded says that something has changed since it was read, so this must not be the last look.
	superseded bool

	mu sync.Mutex
	// until is, by source, when to try again to send.
	until map[types.UID]time.Time
	// spared are those that are sent nothing until then, because their sinks hang.
	spared map[types.UID]bool
}

// look reads, journals, sends and acknowledges. It returns after how long to look again; 0 for not before something
// changes.
func (c *Core) look(ctx context.Context, of types.NamespacedName) (l *look, again time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := c.read(ctx, of)
	if err != nil {
		return nil, 0, err
	}
	l = c.open(ctx, of, s)
	before := l.versions()
	again, observing := l.observe(ctx)
	wrote := !slices.Equal(l.versions(), before)
	// What was pending before is sent whatever is wrong with what happens now.
	sending := l.send(ctx)
	if err := errors.Join(observing, sending, l.write(ctx)); err != nil {
		return nil, 0, err
	}
	if wrote {
		l.superseded, err = c.superseded(ctx, of, l.seen)
	}
	return l, again, err
}

// versions are those of the entries of the Service.
func (l *look) versions() []string {
	var out []string
	for _, s := range l.ledger.Subjects(l.key) {
		out = append(out, s.Name+" "+s.ResourceVersion)
	}
	return out
}

// open begins a look with what was read: it makes a ledger of it.
func (c *Core) open(ctx context.Context, of types.NamespacedName, s seen) *look {
	l := &look{c: c, ctx: ctx, service: of, key: keyOf(of), seen: s, filters: route.NewFilters()}
	l.until, l.spared = map[types.UID]time.Time{}, map[types.UID]bool{}
	router := &route.Router{
		Sources:         l.sources,
		Namespace:       l.labels,
		SystemNamespace: l.c.SystemNamespace,
		Settings:        l.settings,
		Render:          cdevents.Render,
		Rendering:       cdevents.Rendering,
		Filters:         l.filters,
	}
	l.ledger = ledger.New(l.c.Subjects, router, l.c.Metrics, ledger.WithAcks(later{}),
		ledger.WithOwed(ledger.Owed{Attempts: l.attempts, Now: l.c.Now}))
	l.ledger.UseDelivery(l)
	for _, s := range l.entries {
		l.ledger.Observe(s)
	}
	return l
}

// labelled is what is known of a namespace.
type labelled struct {
	labels map[string]string
	exists bool
}

// labels returns the labels of the namespace of the Service. They are read once.
func (l *look) labels(name string) (labels map[string]string, exists bool, err error) {
	if l.namespace == nil {
		if labels, exists, err = l.c.Namespace(l.ctx, name); err != nil {
			return nil, false, err
		}
		l.namespace = &labelled{labels, exists}
	}
	return l.namespace.labels, l.namespace.exists, nil
}

// observe journals what has happened to the Service.
func (l *look) observe(ctx context.Context) (again time.Duration, err error) {
	ob := observer.New(observer.Options{Kind: l.kind, Ledger: l.ledger, Since: l.since, Now: l.c.Now, Once: true})
	ob.Bind(unqueued{})
	err = ob.Promote(reconciler.UniversalBucket(), func(reconciler.Bucket, types.NamespacedName) {})
	if err != nil {
		return 0, fmt.Errorf("leading: %w", err)
	}
	if l.served {
		ob.Start()
	}
	again, err = ob.Fold(ctx, l.service)
	if err != nil {
		return 0, fmt.Errorf("journaling what has happened: %w", err)
	}
	return again, nil
}

// since returns since when Services are announced. It decides only about one that the ledger does not know.
func (l *look) since(ctx context.Context) (time.Time, error) {
	if o := l.kind.Object(l.kind.Cached(l.service)); o != nil {
		for _, s := range l.entries {
			if s.Spec.UID == o.UID {
				return time.Time{}, nil
			}
		}
	}
	at, err := l.c.Baselines.Since(ctx, service.Resource)
	if err != nil {
		return at, fmt.Errorf("taking the baseline: %w", err)
	}
	return at, nil
}

// write writes what was acknowledged, and what is owed. It does so after the time for the request is over, too: of a
// backlog that takes longer, the next request sends what is left.
func (l *look) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrites)
	defer cancel()
	var errs []error
	for _, s := range l.ledger.Subjects(l.key) {
		if err := l.ledger.WriteAcks(ctx, s.Name); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := l.ledger.Expire(ctx, s.Name, l.c.Now()); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// shortest is after how long to look again: for what was observed, or to send.
func (l *look) shortest(again time.Duration) time.Duration {
	now := l.c.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range l.until {
		if wait := max(at.Sub(now), time.Millisecond); again == 0 || wait < again {
			again = wait
		}
	}
	return again
}

// wake is the earliest time at which something is to be done, as the ledger has it.
func (l *look) wake() (at time.Time) {
	for _, s := range l.ledger.Subjects(l.key) {
		if w := ledger.Woken(s); !w.IsZero() && (at.IsZero() || w.Before(at)) {
			at = w
		}
	}
	return at
}

// due reports whether the ledger has when to look again at what lasts.
func (l *look) due() bool {
	return slices.ContainsFunc(l.ledger.Subjects(l.key), func(s *v1alpha1.CDEventSubject) bool {
		return s.Status.Due != nil
	})
}

// Enqueue implements ledger.Delivery. What is pending is sent after the fold.
func (*look) Enqueue(ledger.Key, types.UID) {}

// LeftOut implements ledger.Delivery.
func (l *look) LeftOut(key ledger.Key, sources []types.UID) {
	logging.FromContext(l.ctx).Errorw("Events were not journaled for some sources, because they need more room than the journal has",
		"subject", key.String(), "sources", sources)
}

// Refused implements ledger.Delivery.
func (l *look) Refused(key ledger.Key, source types.UID, why ledger.Refusal) {
	logging.FromContext(l.ctx).Errorw("A source does not receive an event",
		"subject", key.String(), "source", l.sources.Names()[source], "error", why.Err)
}

// later is a queue for acknowledgements: they are written when everything is sent.
type later struct{}

// Add implements ledger.Acks.
func (later) Add(string) {}

// AddAfter implements ledger.Acks.
func (later) AddAfter(string, time.Duration) {}

// unqueued is a queue without a worker: the caller folds.
type unqueued struct{}

// EnqueueKey implements observer.Queue.
func (unqueued) EnqueueKey(types.NamespacedName) {}

// EnqueueSlowKey implements observer.Queue.
func (unqueued) EnqueueSlowKey(types.NamespacedName) {}

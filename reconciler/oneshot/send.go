// SPDX-License-Identifier: Apache-2.0

package oneshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// send sends what is pending: to each source in order, to all sources at once.
func (l *look) send(ctx context.Context) error {
	work := map[types.UID]delivery.Work{}
	ctx, cancel := context.WithCancel(ctx)
	to := &bounded{Transport: l.c.Transport, most: l.c.Within * 5 / 6, hangs: map[types.UID]bool{}}
	l.delivery = delivery.New(ctx, delivery.Options{
		Ledger: l.ledger, Transport: to, Render: cdevents.Render, Filters: l.filters, Metrics: l.c.Metrics,
		Leader: everything{}, Now: l.c.Now, Random: l.c.Random,
		NewQueue: func(source types.UID, w delivery.Work) delivery.Queue { work[source] = w; return unqueued{} },
	})
	defer l.delivery.Wait()
	defer cancel()
	var sends []func() error
	pending := l.ledger.Backlogs()
	for _, uid := range slices.Sorted(maps.Keys(pending)) {
		source := l.sources.ByUID(uid)
		if source == nil {
			if l.deleted[uid] {
				l.c.Transport.Forget(uid)
				l.c.hung.forget(uid)
				l.ledger.Abandon(uid, everything{}.IsLeaderFor)
			}
			continue // it is so new that only another process knows it, which sends to it
		}
		l.delivery.UpdateSource(source)
		sends = append(sends, func() error { return l.sendTo(ctx, source, work[uid], to) })
	}
	if len(sends) == 0 {
		return nil
	}
	if err := l.c.Prepare(ctx); err != nil {
		return fmt.Errorf("preparing to send: %w", err)
	}
	return parallel(l.c.Parallel, sends)
}

var errInterrupted = errors.New("sending was interrupted")

func (l *look) sendTo(ctx context.Context, source *v1alpha1.CDEventSource, w delivery.Work, to *bounded) error {
	if until, is := l.c.hung.spared(source, l.c.Now()); is {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.until[source.UID], l.spared[source.UID] = until, true
		return nil
	}
	wait := w.Deliver(l.key)
	hangs, made := to.of(source.UID)
	l.c.hung.tried(source, hangs, made, l.c.Now())
	if wait == 0 && len(l.ledger.Pending(l.key, source.UID)) > 0 {
		return fmt.Errorf("sending to CDEventSource %s/%s: %w", source.Namespace, source.Name,
			cmp.Or(context.Cause(ctx), errInterrupted))
	}
	if wait > 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.until[source.UID] = l.c.Now().Add(wait)
	}
	return nil
}

// untried is how much longer than a resident controller a source is left alone to which nothing can be sent: it has no
// address, or a filter that cannot be applied. A resident looks into its memory each minute. Here, a change of the
// source is a reason to ask.
const untried = 9 * time.Minute

// attempts are what came of the pending events of an entry.
func (l *look) attempts(name string) []v1alpha1.Attempt {
	if l.delivery == nil {
		return nil // nothing is sent yet
	}
	made := l.delivery.Attempts(l.key, name)
	l.mu.Lock()
	until, spared := maps.Clone(l.until), maps.Clone(l.spared)
	l.mu.Unlock()
	for uid, at := range until {
		for _, p := range l.ledger.Pending(l.key, uid) {
			if p.Name != name {
				continue
			}
			if spared[uid] {
				made[uid] = sparedAttempt(uid, p, at)
			} else if a, ok := made[uid]; !ok || a.Sequence != p.Transition.Sequence {
				made[uid] = v1alpha1.Attempt{
					Source: uid, Sequence: p.Transition.Sequence, NotBefore: *v1alpha1.Micro(at.Add(untried)),
				}
			}
			break
		}
	}
	return slices.Collect(maps.Values(made))
}

// sparedAttempt is what came of an event before, and that it is not sent before then.
func sparedAttempt(source types.UID, p ledger.Pending, until time.Time) v1alpha1.Attempt {
	a := v1alpha1.Attempt{Source: source, Sequence: p.Transition.Sequence}
	if p.Attempt != nil {
		a = *p.Attempt
	}
	if a.NotBefore.Time.Before(until) {
		a.NotBefore = *v1alpha1.Micro(until)
	}
	return a
}

// everything is what a look leads for.
type everything struct{}

// IsLeaderFor implements delivery.Leader.
func (everything) IsLeaderFor(types.NamespacedName) bool { return true }

// Add implements delivery.Queue.
func (unqueued) Add(ledger.Key) {}

// Idle implements delivery.Queue.
func (unqueued) Idle() bool { return true }

// Close implements delivery.Queue.
func (unqueued) Close() {}

// Wait implements delivery.Queue.
func (unqueued) Wait() {}

// parallel calls functions, so many at once, and joins their errors.
func parallel(limit int, all []func() error) error {
	errs := make([]error, len(all))
	if limit == 1 {
		for i, f := range all {
			errs[i] = f()
		}
		return errors.Join(errs...)
	}
	var group errgroup.Group
	group.SetLimit(limit)
	for i, f := range all {
		group.Go(func() error { errs[i] = f(); return nil })
	}
	_ = group.Wait() // each has its own error
	return errors.Join(errs...)
}

// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/knative-cdevents/knative-cdevents/api/plural"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Change is what an observer wants the ledger to write.
type Change struct {
	Memory      Memory
	Transitions []lifecycle.Transition
	// Conditions are all conditions of the object, apart from Delivered.
	Conditions []metav1.Condition
	// At is when the change was decided.
	At time.Time
	// Replay, if not empty, names the only recipients.
	Replay []types.UID
	// Waits are since when something lasts that is not announced yet, and Due is when to look again because of that. They
	// are for an observer that keeps nothing in memory; any other leaves them empty.
	Waits map[lifecycle.Wait]time.Time
	Due   time.Time
}

// Decide receives the newest known state, nil if there is none, and returns what to write,
// nil for nothing. If another writer was faster, it is called again with the state that the
// API server has. It must then start afresh.
type Decide func(current *v1alpha1.CDEventSubject) (*Change, error)

// Journal writes what decide wants, by compare-and-swap.
func (l *Ledger) Journal(ctx context.Context, spec v1alpha1.CDEventSubjectSpec, decide Decide) error {
	sub, done := l.writer(Name(spec), KeyOf(spec))
	defer done()
	return l.write(ctx, sub, spec, decide)
}

// maxConflicts is how often a write may conflict before it is retried later.
const maxConflicts = 8

func (l *Ledger) write(ctx context.Context, sub *subject, spec v1alpha1.CDEventSubjectSpec, decide Decide) error {
	sub.writing.Lock()
	defer sub.writing.Unlock()
	return l.writeHeld(ctx, sub, spec, decide)
}

// writeHeld writes while sub.writing is held.
func (l *Ledger) writeHeld(ctx context.Context, sub *subject, spec v1alpha1.CDEventSubjectSpec, decide Decide) error {
	for range maxConflicts {
		e, err := l.prepare(sub, spec, decide)
		if err != nil || e == nil {
			return err
		}
		written, err := l.put(ctx, e, decide != nil)
		switch {
		case apierrors.IsNotFound(err) && e.current != nil && !Finished(e.current):
			// Deleted by hand, or collected while this process was cut off. The informer
			// will tell which, and what its last state was.
			l.metrics.Refused()
			return fmt.Errorf("writing CDEventSubject %s, which was deleted: %s: %w", sub.name, l.await(sub), err)
		case err == nil:
			l.settle(sub, e, written)
			return nil
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
			l.metrics.Conflict()
			if err := l.reload(ctx, sub); err != nil {
				return err
			}
		default:
			if ctx.Err() == nil { // otherwise, this process is stopping
				l.metrics.Refused()
			}
			l.keepUnanswered(sub, e)
			return fmt.Errorf("writing CDEventSubject %s: %w", sub.name, err)
		}
	}
	return fmt.Errorf("writing CDEventSubject %s: conflicted with %d other writers in a row; retrying later", sub.name,
		maxConflicts)
}

// prepare makes the next state of a subject. It returns nil if there is nothing to write.
func (l *Ledger) prepare(sub *subject, spec v1alpha1.CDEventSubjectSpec, decide Decide) (*edit, error) {
	l.mu.RLock()
	current, acked, dropped, missing := sub.object, maps.Clone(sub.acked), maps.Clone(sub.dropped), sub.missing()
	l.mu.RUnlock()
	l.answer(sub, current)
	e := newEdit(current, spec, acked, dropped)
	e.missing, e.changed = missing, e.changed || missing
	if decide == nil {
		if l.mayForget(current) {
			e.forget()
		}
		e.changed = e.changed || e.folds || l.owed != nil && l.owed.differs(e)
	} else {
		if err := complete(current); err != nil {
			return nil, err
		}
		change, err := decide(current)
		if err != nil {
			return nil, err
		}
		if change != nil {
			e.traced, change.Transitions = change.Transitions, l.marked(spec, change.Transitions)
			if err := e.journal(*change, l.router); err != nil {
				return nil, fmt.Errorf("journaling transitions of %s %s/%s: %w", spec.Kind, spec.Namespace, spec.Name, err)
			}
		}
	}
	if !e.changed && e.folds {
		return nil, nil //nolint:nilnil // a worker writes what was acknowledged
	}
	if !e.changed {
		// Acknowledgements of events that are no longer pending need no write.
		l.forgetAcks(sub, acked, dropped)
		return nil, nil //nolint:nilnil // nothing to write is not an error
	}
	e.finish(l.router.Operator)
	if l.owed != nil {
		l.owed.complete(e)
	}
	return e, nil
}

// put writes the next state. It returns nil if there is nothing to keep.
func (l *Ledger) put(ctx context.Context, e *edit, journals bool) (*v1alpha1.CDEventSubject, error) {
	if journals {
		l.journaling.Add(1)
		defer l.journaling.Add(-1)
	}
	switch {
	case e.done() && e.current == nil:
		return nil, nil //nolint:nilnil // the object came and went within one write, and no source selects it
	case e.current == nil:
		return l.client.Create(ctx, e.next, metav1.CreateOptions{})
	case e.missing:
		// Without it, the object would be announced again.
		if e.next.Status.Created == nil {
			e.next.Status.Created = e.current.CreationTimestamp.DeepCopy()
		}
		e.next.ObjectMeta = metav1.ObjectMeta{Name: e.next.Name, Labels: e.next.Labels, Annotations: e.next.Annotations}
		return l.client.Create(ctx, e.next, metav1.CreateOptions{})
	}
	e.next.ManagedFields = untracked()
	return l.client.Update(ctx, e.next, metav1.UpdateOptions{})
}

// settle takes over what was written, and reports pending and dropped events. What was written before without an answer
// would have conflicted with it.
func (l *Ledger) settle(sub *subject, e *edit, written *v1alpha1.CDEventSubject) {
	if written != nil {
		written = Lean(written)
	}
	l.mu.Lock()
	sub.unanswered = nil
	if written != nil && !sub.hasEnded(written) &&
		(sub.object == nil || newer(written.ResourceVersion, sub.object.ResourceVersion)) {
		sub.object = written
		l.keepLocked(sub)
	}
	l.evictLocked(sub)
	l.mu.Unlock()
	l.forgetAcks(sub, e.acked, e.dropped)
	l.report(sub.key, e)
	l.trace(e)
	if written != nil {
		for source := range e.pending {
			l.delivery.Enqueue(sub.key, source)
		}
	}
}

// report counts what was given up with a write.
func (l *Ledger) report(key Key, e *edit) {
	for reason, n := range e.lost {
		l.metrics.Dropped(reason, n)
	}
	for _, r := range e.refused {
		l.metrics.Dropped(r.Refused.Reason, 1)
		l.delivery.Refused(key, r.Source, *r.Refused)
	}
	if len(e.omitted) > 0 {
		l.delivery.LeftOut(key, e.omitted)
	}
}

// keepUnanswered keeps a write that gives events up: it may have been done although it failed.
func (l *Ledger) keepUnanswered(sub *subject, e *edit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(e.lost)+len(e.refused) > 0 {
		sub.unanswered = e
	}
}

// answer reports what was given up with such a write, as soon as a later state shows that it was done. Before, it may
// still be under way.
func (l *Ledger) answer(sub *subject, now *v1alpha1.CDEventSubject) {
	l.mu.Lock()
	e := sub.unanswered
	if e == nil || now == nil || e.current != nil && !newer(now.ResourceVersion, e.current.ResourceVersion) {
		l.mu.Unlock()
		return
	}
	sub.unanswered = nil
	l.mu.Unlock()
	if e.in(now) {
		l.report(sub.key, e)
	}
}

// forgetAcks removes what has been written.
func (l *Ledger) forgetAcks(sub *subject, acked map[types.UID]int64, dropped map[drop]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for source, seq := range acked {
		if sub.acked[source] <= seq {
			delete(sub.acked, source)
		}
	}
	for d := range dropped {
		delete(sub.dropped, d)
	}
	l.writtenLocked(sub)
	l.evictLocked(sub)
}

// complete returns an error if a CDEventSubject has transitions, and no memory: somebody has edited it. The
// object would be taken for one that is seen for the first time, and its transitions would get numbers that are
// acknowledged already.
func complete(s *v1alpha1.CDEventSubject) error {
	if s == nil || s.Status.Sequence == 0 || strings.TrimSpace(s.Status.Memory) != "" {
		return nil
	}
	return fmt.Errorf("CDEventSubject %s has %s, but nothing in status.memory; %s", s.Name,
		plural.Of(s.Status.Sequence, "transition", "transitions"), untilRepaired)
}

// untilRepaired says what follows from an edit that cannot be undone here, and what to do.
const untilRepaired = "no events about this object are sent until you restore the CDEventSubject, or annotate it with " +
	v1alpha1.ForgetAnnotation + "=true, so that the object is announced anew"

// reload reads a subject from the API server.
func (l *Ledger) reload(ctx context.Context, sub *subject) error {
	l.mu.RLock()
	known := sub.object
	l.mu.RUnlock()
	needed := known != nil && !Finished(known)
	object, err := l.client.Get(ctx, sub.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && needed:
		// As above. Without its last state, it would be taken for one that never was.
		return fmt.Errorf("reading CDEventSubject %s, which was deleted: %s: %w", sub.name, l.await(sub), err)
	case apierrors.IsNotFound(err):
		object = nil
	case err != nil:
		return fmt.Errorf("reading CDEventSubject %s after a conflict: %w", sub.name, err)
	}
	l.mu.Lock()
	shown := sub.object
	if sub.hasEnded(object) ||
		shown != known && shown != nil && (object == nil || !newer(object.ResourceVersion, shown.ResourceVersion)) {
		l.mu.Unlock()
		return nil // meanwhile, the informer has shown what came later
	}
	// Its resourceVersion does not matter: a restored etcd starts lower.
	if object == nil || shown != nil && newer(shown.ResourceVersion, object.ResourceVersion) {
		clear(sub.acked)
		clear(sub.dropped)
	}
	sub.object = Lean(object)
	sub.discardStaleAcksLocked(shown)
	l.writtenLocked(sub)
	l.mu.Unlock()
	l.remind(object)
	return nil
}

// remind reports all pending events of an object that another process wrote. That process
// may be gone before it has sent them.
func (l *Ledger) remind(s *v1alpha1.CDEventSubject) {
	if s == nil {
		return
	}
	seen := map[types.UID]bool{}
	for _, j := range s.Status.Journal {
		for _, r := range j.Recipients {
			if !seen[r.Source] {
				seen[r.Source] = true
				l.delivery.Enqueue(KeyOf(s.Spec), r.Source)
			}
		}
	}
}

// newer says whether the resourceVersion a is later than b. One that cannot be compared
// counts as newer, because it came from the API server.
func newer(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || c > 0
}

// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Collect deletes the CDEventSubjects of objects that are gone, once this process has seen no
// pending event about them for the given time. Until then, another leader whose caches lag
// may still see the object, and would announce it again without the CDEventSubject.
func (l *Ledger) Collect(ctx context.Context, now time.Time, keep time.Duration) error {
	var due []*subject
	var forgotten []string
	l.mu.Lock()
	for _, sub := range l.subjects {
		if l.mayForget(sub.object) {
			forgotten = append(forgotten, sub.name) // the leader that was asked may have died
		}
		switch {
		case !sub.idle():
			sub.finished = time.Time{}
		case sub.finished.IsZero():
			sub.finished = now
		case now.Sub(sub.finished) >= keep:
			due = append(due, sub)
		}
	}
	l.mu.Unlock()
	// The order is fixed, so that a simulation can be repeated.
	slices.Sort(forgotten)
	for _, name := range forgotten {
		l.acks.Add(name)
	}
	slices.SortFunc(due, func(a, b *subject) int { return strings.Compare(a.name, b.name) })
	var errs []error
	for _, sub := range due {
		// One that a policy protects keeps no other, and neither do many: it is not due again before the others. Many
		// errors in a row may be the API server's.
		if err := l.collect(ctx, sub); err != nil {
			l.mu.Lock()
			sub.finished = now
			l.mu.Unlock()
			if errs = append(errs, err); len(errs) == maxCollectErrors {
				break
			}
		}
	}
	return errors.Join(errs...)
}

// maxCollectErrors is how many CDEventSubjects may fail to be deleted before Collect gives up until its next call.
const maxCollectErrors = 10

// Expire deletes a CDEventSubject that is finished, and has been for long enough by its WakeAnnotation.
func (l *Ledger) Expire(ctx context.Context, name string, now time.Time) error {
	l.mu.RLock()
	sub, ok := l.subjects[name]
	expired := ok && sub.object != nil && Finished(sub.object) && !Woken(sub.object).After(now)
	l.mu.RUnlock()
	if !expired {
		return nil
	}
	return l.collect(ctx, sub)
}

func (l *Ledger) collect(ctx context.Context, sub *subject) error {
	sub.writing.Lock()
	defer sub.writing.Unlock()
	return l.collectHeld(ctx, sub)
}

// collectHeld deletes a finished CDEventSubject while sub.writing is held.
func (l *Ledger) collectHeld(ctx context.Context, sub *subject) error {
	l.mu.Lock()
	o := sub.object
	if o == nil {
		sub.unanswered = nil // it was not done, or this cannot be known
		l.evictLocked(sub)
	}
	l.mu.Unlock()
	if o == nil || !Finished(o) {
		return nil
	}
	err := l.client.Delete(ctx, sub.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
		UID: &o.UID, ResourceVersion: &o.ResourceVersion,
	}})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		err = l.reload(ctx, sub) // another leader was faster
		l.mu.Lock()
		defer l.mu.Unlock()
		l.evictLocked(sub)
		return err
	}
	if err != nil {
		return fmt.Errorf("deleting CDEventSubject %s, which has no pending events: %w", sub.name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if sub.object != nil {
		sub.deleted, sub.object = sub.object.UID, nil
		l.clearAcksLocked(sub)
	}
	l.evictLocked(sub)
	return nil
}

// young is how old an object may be that is certainly not forgotten: much younger than keepRemoved, because the clocks
// of API servers differ.
const young = keepRemoved / 2

// MayHaveForgotten says whether an object that is gone, and has no CDEventSubject, may have had one since a time of the
// API server: its creation, or a later time at which it certainly had none. This process may have been suspended, and
// its clock with it, so the API server is asked for the time.
func (l *Ledger) MayHaveForgotten(ctx context.Context, of v1alpha1.CDEventSubjectSpec, since time.Time) (bool, error) {
	now, err := l.Time(ctx, of)
	if err != nil || now.IsZero() {
		return false, err // if it has one, the informer lags, and a write would conflict
	}
	return now.Sub(since) > young, nil
}

// Time returns the time of the API server, to the second; zero if an object has a CDEventSubject. It is the
// creationTimestamp of one that is not stored.
func (l *Ledger) Time(ctx context.Context, of v1alpha1.CDEventSubjectSpec) (time.Time, error) {
	now, err := l.client.Create(ctx, &v1alpha1.CDEventSubject{ObjectMeta: metav1.ObjectMeta{Name: Name(of)}, Spec: of},
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case apierrors.IsAlreadyExists(err):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, fmt.Errorf("asking for the time: %w", err)
	}
	return now.CreationTimestamp.Time, nil
}

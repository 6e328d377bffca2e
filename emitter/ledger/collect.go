package ledger

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Collect deletes the entries of objects that are gone, once nothing is owed
// about them any more and they are older than that. They are kept for a while
// because another leader, whose caches lag behind, may still be shown the object:
// without the entry it would be announced once more.
func (l *Ledger) Collect(ctx context.Context, before time.Time) error {
	var due []*line
	l.mu.RLock()
	for _, ln := range l.lines {
		if o := ln.object; o != nil && finished(o) && o.Status.LastEventTime != nil && o.Status.LastEventTime.Time.Before(before) {
			due = append(due, ln)
		}
	}
	l.mu.RUnlock()
	for _, ln := range due {
		if err := l.collect(ctx, ln); err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) collect(ctx context.Context, ln *line) error {
	ln.writing.Lock()
	defer ln.writing.Unlock()
	l.mu.RLock()
	o := ln.object
	l.mu.RUnlock()
	if o == nil || !finished(o) {
		return nil
	}
	err := l.client.Delete(ctx, ln.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
		UID: &o.UID, ResourceVersion: &o.ResourceVersion,
	}})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return l.reload(ctx, ln) // another leader was faster
	}
	if err != nil {
		return fmt.Errorf("deleting CDEventSubject %s, of which nothing is owed any more: %w", ln.name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if ln.object != nil {
		ln.deleted, ln.object = ln.object.UID, nil
	}
	l.dropLocked(ln)
	return nil
}

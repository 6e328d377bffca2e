package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Collect deletes the entries of objects that are gone, once nothing has been owed
// about them for a while, as this process saw it: other clocks may be wrong. They
// are kept for so long because another leader, whose caches lag behind, may still
// be shown the object: without the entry it would be announced once more.
func (l *Ledger) Collect(ctx context.Context, now time.Time, keep time.Duration) error {
	var due []*line
	l.mu.Lock()
	for _, ln := range l.lines {
		switch {
		case ln.object == nil || !finished(ln.object):
			ln.finished = time.Time{}
		case ln.finished.IsZero():
			ln.finished = now
		case now.Sub(ln.finished) >= keep:
			due = append(due, ln)
		}
	}
	l.mu.Unlock()
	// In an order of their own, so that a simulation can be repeated.
	slices.SortFunc(due, func(a, b *line) int { return strings.Compare(a.name, b.name) })
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
		return fmt.Errorf("deleting CDEventSubject %s, which has no pending events: %w", ln.name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if ln.object != nil {
		ln.deleted, ln.object = ln.object.UID, nil
	}
	l.dropLocked(ln)
	return nil
}

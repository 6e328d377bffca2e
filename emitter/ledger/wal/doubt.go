package wal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Slots are read ahead of what the informer delivers. So the log may tell of the end of a CDEventSubject whose creation this process has
// not seen: that is still to come, or the object was deleted since and does not count any more. Only the API server knows.

// outdatedLocked says that slots have a later state of a CDEventSubject that this process takes for deleted. So its checkpoint comes late,
// or somebody has put it back.
func (l *Log) outdatedLocked(checkpoint *v1alpha1.CDEventSubject) bool {
	revision := checkpoint.Status.Revision
	return l.known && revision > 0 && l.latestLocked(checkpoint.Name) > revision
}

// doubtLocked has the API server asked whether a CDEventSubject exists.
func (l *Log) doubtLocked(name string) {
	l.doubts[name] = true
	l.wakeTeller()
}

// settle asks the API server for all that is in doubt.
func (l *Log) settle(ctx context.Context) error {
	l.mu.Lock()
	names := slices.Sorted(maps.Keys(l.doubts)) // the order is fixed, so that a simulation can be repeated
	l.mu.Unlock()
	var errs []error
	for _, name := range names {
		if err := l.settleOne(ctx, name); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (l *Log) settleOne(ctx context.Context, name string) error {
	o, err := l.client.Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading CDEventSubject %s, which the log ended: %w", name, err)
	}
	var last *v1alpha1.CDEventSubject
	if err == nil {
		if last, err = l.lastOf(ctx, name); err != nil {
			return err
		}
	} else {
		o = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.doubts, name)
	e := l.entries[name]
	switch {
	case o == nil && e != nil && e.version == "" && l.Finished(e.newest):
		l.dropLocked(name)
	case o != nil && e == nil:
		o = l.Lean(o)
		l.entries[name] = &entry{newest: o, uid: o.UID, version: o.ResourceVersion, stored: o.Status.Revision, floor: l.latestLocked(name)}
		if last != nil {
			l.committedLocked(last, nowhere)
		} else {
			l.tellLocked(o)
		}
	case o != nil:
		if s := l.storedLocked(l.Lean(o)); s != nil {
			l.tellLocked(s)
		}
	}
	return nil
}

// lastOf reads the newest state of a CDEventSubject that this process has dropped from the slot that had it. It returns nil if the slot has
// something else by now: then whoever wrote that has written the checkpoint, or knows that there was none.
func (l *Log) lastOf(ctx context.Context, name string) (*v1alpha1.CDEventSubject, error) {
	l.mu.Lock()
	number, latest := -1, int64(0)
	for n, s := range l.ring {
		for _, r := range s.records {
			if r.name == name && r.revision >= latest {
				number, latest = n, r.revision
			}
		}
	}
	if l.entries[name] != nil {
		number = -1 // it is not dropped
	}
	l.mu.Unlock()
	if number < 0 {
		return nil, nil //nolint:nilnil // no slot has a state of it
	}
	o, err := l.client.Get(ctx, slotName(number), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // somebody has deleted the slot
	}
	if err != nil {
		return nil, fmt.Errorf("reading the end of CDEventSubject %s: %w", name, err)
	}
	c, err := contentOf(o)
	if err != nil {
		return nil, err
	}
	for _, s := range c.states {
		if s.Name == name && s.Status.Revision == latest {
			return s, nil
		}
	}
	return nil, nil //nolint:nilnil // see above
}

// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/logging"
)

// Checkpoints bounds how fast checkpoints are written. A checkpoint costs a write, as an entry without a log would.
type Checkpoints struct {
	// Rate is how many are written in a second, and Quiet how many when nothing was committed for QuietAfter.
	Rate, Quiet float64
	QuietAfter  time.Duration
	// Share is how many are written in a second for each CDEventSubject that waits, if that is more.
	Share float64
	// Age is how long a state waits at least: another one may follow. With pending events, it waits for Patience: when they are
	// acknowledged, another one follows for certain.
	Age, Patience time.Duration
}

// usual keeps the writes for one event at 50 a second near one.
var usual = Checkpoints{Rate: 2, Quiet: 20, QuietAfter: 3 * time.Second, Share: .002, Age: 2 * time.Second, Patience: time.Minute}

// pacing says how many checkpoints may be written.
type pacing struct {
	tokens float64
	// paid is when tokens was true, and busy when something was last committed.
	paid, busy time.Time
	committed  bool
}

// behindLocked notes that a slot has a newer state than the checkpoint.
func (l *Log) behindLocked(e *entry, position int64) {
	if e.position, e.exposed = position, false; e.place != nil {
		l.behind.Remove(e.place)
	}
	e.place = l.behind.PushBack(e)
	e.since = time.Time{}
	l.pacing.committed = true
	l.wakeTeller()
}

// caughtUpLocked notes that the checkpoint has the newest state.
func (l *Log) caughtUpLocked(e *entry) {
	if e.position, e.exposed = 0, false; e.place != nil {
		l.behind.Remove(e.place)
		e.place = nil
	}
}

func (l *Log) wakeTeller() {
	select {
	case l.wake <- struct{}{}:
	default: // it is awake
	}
}

// Behind is how many CDEventSubjects have a newer state in the log.
func (l *Log) Behind() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.behind.Len()
}

// busy says whether there is something to write, or to read again.
func (l *Log) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.behind.Len() > 0 || len(l.doubts) > 0 || l.known && len(l.ahead) > 0
}

// Run writes checkpoints, and tells of what was read, until ctx ends.
func (l *Log) Run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		for l.busy() && ctx.Err() == nil {
			l.TellAll()
			if err := l.Checkpoint(ctx, time.Now()); err != nil && !errors.Is(err, context.Canceled) {
				logging.FromContext(ctx).Warnw("Some CDEventSubjects are not up to date yet; the log has their newest state", "error", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(checkEvery):
			}
		}
		l.TellAll()
	}
}

// checkEvery is the pause between two looks at what waits for a checkpoint.
const checkEvery = time.Second

// Checkpoint writes those whose turn it is, the oldest first.
func (l *Log) Checkpoint(ctx context.Context, now time.Time) error {
	if !l.Known() {
		return nil
	}
	var errs []error
	if err := l.closeGap(ctx, now); err != nil {
		errs = append(errs, err)
	}
	for _, name := range l.doubtful() {
		if err := l.settle(ctx, name); err != nil {
			errs = append(errs, err)
		}
	}
	for _, name := range l.due(now) {
		var err error
		for range maxConflicts {
			if err = l.upToDate(ctx, name); err == nil {
				err = l.checkpoint(ctx, name)
			}
			if !errors.Is(err, errMissing) {
				break
			}
		}
		if err != nil {
			errs = append(errs, err)
			l.postpone(name, now)
		}
	}
	return errors.Join(errs...)
}

// gapFor is how long positions may be missing that the informer has not delivered, before everything is read again.
const gapFor = time.Second

// closeGap reads everything again if positions are missing.
func (l *Log) closeGap(ctx context.Context, now time.Time) error {
	l.mu.Lock()
	gap := l.known && len(l.ahead) > 0 && l.own == 0
	switch {
	case !gap:
		l.gap = time.Time{}
	case l.gap.IsZero():
		l.gap, gap = now, false
	default:
		gap = now.Sub(l.gap) >= gapFor
	}
	l.mu.Unlock()
	if !gap {
		return nil
	}
	l.appending.Lock()
	defer l.appending.Unlock()
	return l.resync(ctx)
}

// postpone lets others go first, because a checkpoint cannot be written now.
func (l *Log) postpone(name string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entries[name]; e != nil && e.place != nil {
		l.behind.MoveToBack(e.place)
		e.since = now
	}
}

// upToDate reads the log to its end before a CDEventSubject is created again: another process may have deleted it for good, after a state
// that this one has not read.
func (l *Log) upToDate(ctx context.Context, name string) error {
	if l.missing(name) {
		l.appending.Lock()
		err := l.catchUp(ctx)
		l.appending.Unlock()
		if err != nil {
			return err
		}
		l.mu.Lock()
		if e := l.entries[name]; e != nil && e.version == "" && l.Finished(e.newest) {
			l.doubtLocked(name) // it is not created only to be deleted
		}
		l.mu.Unlock()
	}
	return l.settle(ctx, name)
}

// missing says that a CDEventSubject is to be created again.
func (l *Log) missing(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[name]
	return e != nil && e.version == ""
}

// errMissing is the outcome of a checkpoint whose CDEventSubject was deleted meanwhile. Whether it is created again is decided after the
// log was read to its end.
var errMissing = errors.New("it was deleted meanwhile")

// maxPassed is how many CDEventSubjects of other leaders are passed over at a time.
const maxPassed = 256

// due chooses the CDEventSubjects whose checkpoint is written now.
func (l *Log) due(now time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &l.pacing
	if p.committed || p.busy.IsZero() {
		p.committed, p.busy = false, now
	}
	rate := max(l.Checkpoints.Rate, l.Checkpoints.Share*float64(l.behind.Len()))
	if now.Sub(p.busy) >= l.Checkpoints.QuietAfter {
		rate = max(rate, l.Checkpoints.Quiet)
	}
	if since := now.Sub(p.paid).Seconds(); !p.paid.IsZero() && since > 0 {
		p.tokens = min(p.tokens+rate*since, max(1, 2*rate))
	}
	p.paid = now
	for at := l.behind.Back(); at != nil; at = at.Prev() { // those that came since the last look
		e, ok := at.Value.(*entry)
		if !ok || !e.since.IsZero() {
			break
		}
		e.since = now
	}
	var out []string
	for at, passed := l.behind.Front(), 0; at != nil && float64(len(out)+1) <= p.tokens && passed < maxPassed; at = at.Next() {
		e, ok := at.Value.(*entry)
		switch {
		case !ok:
		case e.exposed && l.Leads(keyOf(e.newest)):
			out = append(out, e.newest.Name)
		case !e.since.IsZero() && now.Sub(e.since) < l.Checkpoints.Age:
			passed = maxPassed // those behind it are younger
		case !e.since.IsZero() && now.Sub(e.since) < l.Checkpoints.Patience && len(e.newest.Status.Journal) > 0:
		case !l.Leads(keyOf(e.newest)):
			passed++
		default:
			out = append(out, e.newest.Name)
		}
	}
	p.tokens -= float64(len(out))
	return out
}

// maxConflicts is how often a checkpoint may conflict before it is retried later.
const maxConflicts = 8

// checkpoint writes the newest state of a CDEventSubject to its object, unless that has it. Appends go on meanwhile.
func (l *Log) checkpoint(ctx context.Context, name string) error {
	for range maxConflicts {
		l.mu.Lock()
		e := l.entries[name]
		if e == nil || e.position == 0 {
			l.mu.Unlock()
			return nil
		}
		state := *e.newest
		state.UID, state.ResourceVersion = e.uid, e.version
		l.mu.Unlock()
		written := &state
		var err error
		if state.ResourceVersion == "" {
			if state.Status.Created == nil && !state.CreationTimestamp.IsZero() { // its place in the order of events
				state.Status.Created = state.CreationTimestamp.DeepCopy()
			}
			state.UID, state.CreationTimestamp = "", metav1.Time{}
			written, err = l.client.Create(ctx, written, metav1.CreateOptions{})
		} else {
			written, err = l.client.Update(ctx, written, metav1.UpdateOptions{})
		}
		switch {
		case err == nil:
			l.mu.Lock()
			if s := l.storedLocked(l.Lean(written)); s != nil {
				l.tellLocked(s)
			}
			l.mu.Unlock()
			return nil
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
			if _, err := l.reread(ctx, name); err != nil {
				return err
			}
			if state.ResourceVersion != "" && l.missing(name) {
				return errMissing
			}
		default:
			return fmt.Errorf("writing CDEventSubject %s: %w", name, err)
		}
	}
	return fmt.Errorf("writing CDEventSubject %s: conflicted with %d other writers in a row; retrying later", name, maxConflicts)
}

// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

const (
	// maxBatch is how many changes one append has, and maxCarried how many states it carries; what is more is written to checkpoints
	// first.
	maxBatch, maxCarried = 64, 192
	// maxSlot bounds a slot with more than one state, in bytes as compressed, and so what all slots take in etcd and in memory. A usual
	// state has half a kilobyte.
	maxSlot = 128 << 10
	// maxCarry bounds a slot that carries states, because it is so for etcd.
	maxCarry = 768 << 10
	// maxAppends is how often an append may conflict before it is retried later.
	maxAppends = 16
	// appendFor bounds one request: its outcome matters to others than its caller.
	appendFor = 10 * time.Second
)

// commit writes the next state of a CDEventSubject together with what others want to write meanwhile. Whoever comes first writes for all.
func (l *Log) commit(ctx context.Context, next *v1alpha1.CDEventSubject) (*v1alpha1.CDEventSubject, error) {
	r := &request{next: next}
	l.mu.Lock()
	l.waiting = append(l.waiting, r)
	l.mu.Unlock()
	l.appending.Lock()
	defer l.appending.Unlock()
	for !r.answered {
		l.mu.Lock()
		n := min(len(l.waiting), maxBatch)
		batch := l.waiting[:n:n]
		l.waiting = l.waiting[n:]
		l.mu.Unlock()
		writing, stop := context.WithTimeout(context.WithoutCancel(ctx), appendFor)
		l.append(writing, batch)
		stop()
	}
	return r.written, r.err
}

// attempt is one append.
type attempt struct {
	number  int
	content content
	object  *v1alpha1.CDEventSubject
	// batch are the requests that it answers; the states of the others are carried.
	batch []*request
}

// append commits a batch, and answers each request.
func (l *Log) append(ctx context.Context, batch []*request) {
	for range maxAppends {
		a, err := l.compose(ctx, batch)
		if errors.Is(err, errEncoding) && len(a.batch) > 1 {
			l.split(ctx, a, err)
			return
		}
		if err != nil {
			fail(batch, err)
			return
		}
		if batch = a.batch; len(batch) == 0 {
			return
		}
		if size := len(a.object.Status.Compressed); size > maxSlot && len(batch) > 1 || size > maxCarry && len(a.content.states) > 1 {
			l.split(ctx, a, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("slot %s of the log would have %d bytes", a.object.Name, size)))
			return
		} else if carried := len(a.content.states) - len(batch); size > maxSlot && carried > 0 && l.unburden(ctx, a.number, 0) {
			continue
		}
		l.sends(a)
		written, err := l.client.Update(ctx, a.object, metav1.UpdateOptions{})
		if err == nil {
			l.appended(ctx, a, written)
			return
		}
		l.ended(ctx)
		switch {
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			if err := l.catchUp(ctx); err != nil {
				fail(batch, err)
				return
			}
		case refused(err):
			l.split(ctx, a, err)
			return
		default:
			l.lookUp(ctx, a, err)
			return
		}
	}
	fail(batch, fmt.Errorf("writing the log: conflicted with other writers %d times in a row; retrying later", maxAppends))
}

func fail(batch []*request, err error) {
	for _, r := range batch {
		r.answered, r.err = true, err
	}
}

// refused reports whether the API server refuses what is to be written, and will do so again.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// sends notes that an append is on its way.
func (l *Log) sends(a *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own = a.content.position
}

// split commits the halves of what is too large, or what the API server refuses, so that only the change that it refuses fails.
func (l *Log) split(ctx context.Context, a *attempt, err error) {
	switch carried := len(a.content.states) - len(a.batch); {
	case len(a.batch) > 1:
		half := len(a.batch) / 2
		l.append(ctx, a.batch[:half:half])
		l.append(ctx, a.batch[half:])
	case carried > 0 && l.unburden(ctx, a.number, 0):
		l.append(ctx, a.batch)
	default:
		fail(a.batch, err)
	}
}

// compose prepares an append. It answers those whose state is not based on the newest one.
func (l *Log) compose(ctx context.Context, batch []*request) (*attempt, error) {
	if err := l.makeRoom(ctx); err != nil {
		return nil, err
	}
	a, in, err := l.admit(batch)
	if err != nil || len(a.batch) == 0 {
		return a, err
	}
	if a.object, err = a.content.object(a.number, in); err != nil {
		err = errors.Join(errEncoding, err)
	}
	return a, err
}

// errEncoding is the outcome of an append with a state that cannot be encoded.
var errEncoding = errors.New("the log cannot have this state")

// makeRoom makes sure that the slot of the next position exists, and that not too much of it must be carried.
func (l *Log) makeRoom(ctx context.Context) error {
	l.mu.Lock()
	known, number := l.known, l.targetLocked()
	version, carried := l.ring[number].version, len(l.carriedLocked(number, nil))
	l.mu.Unlock()
	switch {
	case !known:
		return apierrors.NewServiceUnavailable(errUnknown.Error())
	case version == "":
		return l.catchUp(ctx)
	case carried > maxCarried:
		l.unburden(ctx, number, maxCarried/2)
	}
	return nil
}

// admit chooses the requests that the next append commits, and what it carries. It returns the slot as it is.
func (l *Log) admit(batch []*request) (*attempt, slot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	number := l.targetLocked()
	in := l.ring[number]
	if in.version == "" { // deleted again
		return nil, in, apierrors.NewTimeoutError(fmt.Sprintf("slot %s of the log does not exist", slotName(number)), 1)
	}
	a := &attempt{number: number, content: content{position: l.end + 1, attempt: l.Attempt()}}
	changes := map[string]bool{}
	for _, r := range batch {
		e := l.entries[r.next.Name]
		switch {
		case e == nil:
			r.answered, r.err = true, apierrors.NewNotFound(v1alpha1.SubjectResource.GroupResource(), r.next.Name)
		case changes[r.next.Name] || e.newest.ResourceVersion != r.next.ResourceVersion || e.newest.Status.Revision != r.next.Status.Revision:
			r.answered, r.err = true, conflict(r.next.Name)
		default:
			changes[r.next.Name] = true
			next := *r.next
			if next.Status.Revision == 0 { // an earlier build wrote it, perhaps after states that slots still have
				next.Status.Revision = l.latestLocked(next.Name)
			}
			next.Status.Revision = max(next.Status.Revision, e.floor) + 1
			a.batch, a.content.states = append(a.batch, r), append(a.content.states, &next)
			a.content.fresh++
		}
	}
	if len(a.batch) > 0 {
		a.content.states = append(a.content.states, l.carriedLocked(number, changes)...)
	}
	return a, in, nil
}

// numberOf is the number of the slot of a position.
func (l *Log) numberOf(position int64) int { return int(position % int64(len(l.ring))) }

// targetLocked is the number of the slot of the next position.
func (l *Log) targetLocked() int { return l.numberOf(l.end + 1) }

// carriedLocked returns the states that only a slot has, apart from some names.
func (l *Log) carriedLocked(number int, but map[string]bool) []*v1alpha1.CDEventSubject {
	var out []*v1alpha1.CDEventSubject
	s := &l.ring[number]
	for _, r := range s.records {
		if e := l.entries[r.name]; e != nil && s.position != 0 && e.position == s.position && !but[r.name] {
			out = append(out, e.newest)
		}
	}
	return out
}

// unburden writes checkpoints until a slot has at most as many states that it alone has, as far as the API server accepts them. What
// must be created again has its turn later. It returns whether the slot alone has less now.
func (l *Log) unburden(ctx context.Context, number, left int) (lighter bool) {
	l.mu.Lock()
	carried := l.carriedLocked(number, nil)
	before := len(carried)
	carried = slices.DeleteFunc(carried, func(s *v1alpha1.CDEventSubject) bool { return l.entries[s.Name].version == "" })
	l.mu.Unlock()
	for _, s := range carried[min(left, len(carried)):] {
		if err := l.checkpoint(ctx, s.Name); err != nil {
			logging.FromContext(ctx).Warnw("The log carries a state on, because its CDEventSubject cannot be written", "error", err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.carriedLocked(number, nil)) < before
}

// appended takes over an append that is committed, and answers it.
func (l *Log) appended(ctx context.Context, a *attempt, written *v1alpha1.CDEventSubject) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.own = 0; l.end < a.content.position { // otherwise, it was read like another's after it failed
		l.ring[a.number] = slot{uid: written.UID, version: written.ResourceVersion, position: a.content.position, records: a.content.records()}
		l.end = a.content.position
	}
	defer l.foldAheadLocked(ctx)
	for i, s := range a.content.states {
		e := l.entries[s.Name]
		if i >= len(a.batch) {
			if e != nil && e.position != 0 && e.newest.Status.Revision == s.Status.Revision { // not written meanwhile
				e.position = max(e.position, a.content.position)
			}
			continue
		}
		s.ResourceVersion = written.ResourceVersion
		r := a.batch[i]
		r.answered, r.written = true, s
		if e == nil { // it was taken for deleted meanwhile
			l.committedLocked(s, a.content.position)
			continue
		}
		if !later(s, e.newest) { // somebody has read it meanwhile, and written a checkpoint or a later state
			continue
		}
		s = l.Lean(s)
		clothe(s, e.newest)
		e.take(s)
		r.written = e.newest
		l.behindLocked(e, a.content.position)
	}
}

// ended takes note that an append failed, or may have.
func (l *Log) ended(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own = 0
	l.foldAheadLocked(ctx)
}

// lookUp finds out whether an append without an answer was written.
func (l *Log) lookUp(ctx context.Context, a *attempt, why error) {
	reading, stop := context.WithTimeout(context.WithoutCancel(ctx), appendFor) // that of the append may have ended it
	defer stop()
	o, err := l.client.Get(reading, slotName(a.number), metav1.GetOptions{})
	if err == nil && o.Status.Sequence == a.content.position {
		if c, err := contentOf(o); err == nil && c.attempt == a.content.attempt {
			l.appended(ctx, a, o)
			return
		}
	}
	// If it arrives later, an append conflicts with it, and reads it like another's.
	fail(a.batch, why)
}

// readToEnd makes sure that this process knows what was committed before the call. Those who call at the same time share one reading.
func (l *Log) readToEnd(ctx context.Context) error {
	l.mu.Lock()
	before := l.readings
	l.mu.Unlock()
	l.appending.Lock()
	defer l.appending.Unlock()
	l.mu.Lock()
	if l.read > before {
		l.mu.Unlock()
		return nil
	}
	l.readings++
	this := l.readings
	l.mu.Unlock()
	if err := l.catchUp(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read = this
	return nil
}

// catchUp reads the slots that others have written since the last position that was folded.
func (l *Log) catchUp(ctx context.Context) error {
	defer l.wakeTeller()
	for range len(l.ring) + 1 {
		l.mu.Lock()
		number, end := l.targetLocked(), l.end
		l.mu.Unlock()
		o, err := l.client.Get(ctx, slotName(number), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return l.renew(ctx)
		}
		if err != nil {
			return fmt.Errorf("reading the log after a conflict: %w", err)
		}
		l.mu.Lock()
		if l.end != end { // the informer was faster, and the next position is in another slot now
			l.mu.Unlock()
			continue
		}
		position, next := o.Status.Sequence, l.end+1
		switch {
		case l.impossible(o, number):
			l.adoptLocked(ctx, o, number)
			position = 0
		case position == next:
			l.foldLocked(ctx, o)
			l.foldAheadLocked(ctx)
		case position < next:
			if s := &l.ring[number]; position != s.position && position != 0 {
				logging.FromContext(ctx).Warnw("A slot of the log has another position than it had", "slot", o.Name, "position", position, "known", s.position)
			}
			l.ring[number].uid, l.ring[number].version = o.UID, o.ResourceVersion
		}
		l.mu.Unlock()
		switch {
		case position < next:
			return nil
		case position > next:
			return l.resync(ctx)
		}
	}
	return l.resync(ctx)
}

// renew creates the slot of the next position, which does not exist. If somebody has deleted it, the end of the log may be another.
func (l *Log) renew(ctx context.Context) error {
	if err := l.resync(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	number := l.targetLocked()
	l.mu.Unlock()
	return l.makeSlot(ctx, number)
}

// makeSlot creates an empty slot.
func (l *Log) makeSlot(ctx context.Context, number int) error {
	empty, err := content{}.object(number, slot{})
	if err != nil {
		return err
	}
	o, err := l.client.Create(ctx, empty, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		o, err = l.client.Get(ctx, empty.Name, metav1.GetOptions{})
	}
	if err != nil {
		return fmt.Errorf("creating slot %s of the log: %w", empty.Name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.Status.Sequence > l.end || l.impossible(o, number) {
		return nil // the next append conflicts with it
	}
	l.ring[number].uid, l.ring[number].version = o.UID, o.ResourceVersion
	return nil
}

// MakeSlots creates the slots that do not exist, so that no append has to.
func (l *Log) MakeSlots(ctx context.Context) error {
	for number := range l.ring {
		l.mu.Lock()
		exists := l.ring[number].version != ""
		l.mu.Unlock()
		if exists {
			continue
		}
		l.appending.Lock()
		err := l.makeSlot(ctx, number)
		l.appending.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

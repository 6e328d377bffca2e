// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Observe takes over a CDEventSubject that the informer has seen. It tells of states that others have committed.
func (l *Log) Observe(ctx context.Context, o *v1alpha1.CDEventSubject) {
	l.mu.Lock()
	switch {
	case isSlot(o):
		l.observeSlotLocked(ctx, o)
	case l.Direct(o):
		l.tellLocked(o)
	default:
		if s := l.storedLocked(plausible(o)); s != nil {
			l.tellLocked(s)
		}
	}
	l.mu.Unlock()
	l.TellAll()
}

// Forget takes note that an object is gone. It returns its newest state, nil if the object is not known. Certain says
// that the object was seen until its end.
func (l *Log) Forget(o *v1alpha1.CDEventSubject, certain bool) *v1alpha1.CDEventSubject {
	l.mu.Lock()
	defer l.mu.Unlock()
	if isSlot(o) {
		l.forgetSlotLocked(o)
		return nil
	}
	l.goneLocked(o.UID)
	e := l.entries[o.Name]
	if e == nil || l.Direct(o) {
		return o
	}
	if e.uid != o.UID { // another one of that name exists, or was deleted too without being seen
		if !certain {
			l.doubtLocked(o.Name)
		}
		return nil
	}
	newest := e.newest
	switch {
	case l.Finished(newest) && o.Status.Revision != newest.Status.Revision: // it may have been restored, and then ended
		e.uid, e.version, e.stored = "", "", -1
		l.doubtLocked(o.Name)
		return nil
	case l.Finished(newest), !certain && e.position == 0:
		l.dropLocked(o.Name)
	default:
		l.missingLocked(o.Name)
	}
	return newest
}

// Start takes over what the informer has seen until now: a consistent list of slots and checkpoints, and what came after it. It tells of
// all states.
func (l *Log) Start(ctx context.Context) {
	l.mu.Lock()
	l.foldAllLocked(ctx, l.ahead)
	clear(l.ahead)
	for _, name := range slices.Sorted(maps.Keys(l.entries)) {
		l.tellLocked(l.entries[name].newest)
	}
	l.known = true
	l.mu.Unlock()
	l.TellAll()
}

// Known says whether the log was read.
func (l *Log) Known() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known
}

// Stop ends all writes: after the API server went back in time, this process remembers states that may never have been.
func (l *Log) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known, l.entries = false, map[string]*entry{}
	l.behind.Init()
	clear(l.doubts)
}

// foldAllLocked folds the slots of a list, by position, after all checkpoints of the same list. Positions that are missing are those of
// slots that somebody deleted, or that were overwritten before this process read them. It returns whether there are any.
func (l *Log) foldAllLocked(ctx context.Context, slots map[int64]*v1alpha1.CDEventSubject) (missed bool) {
	l.listed = true
	defer func() { l.listed = false }()
	from := l.end
	for _, position := range slices.Sorted(maps.Keys(slots)) {
		l.foldLocked(ctx, slots[position])
	}
	return l.end-from > int64(len(slots))
}

// TellAll calls Tell with what others have committed since the last call.
func (l *Log) TellAll() {
	l.telling.Lock()
	defer l.telling.Unlock()
	for {
		l.mu.Lock()
		all := l.untold
		l.untold = nil
		l.mu.Unlock()
		if len(all) == 0 {
			return
		}
		for _, s := range all {
			l.Tell(s)
		}
	}
}

func (l *Log) tellLocked(s *v1alpha1.CDEventSubject) {
	l.untold = append(l.untold, s)
}

// storedLocked takes over a checkpoint. It returns a state to tell of, if any.
func (l *Log) storedLocked(o *v1alpha1.CDEventSubject) *v1alpha1.CDEventSubject {
	e := l.entries[o.Name]
	if e == nil {
		return l.firstLocked(o)
	}
	if e.version != "" && !newer(o.ResourceVersion, e.version) {
		if e.uid == o.UID && e.version == o.ResourceVersion && e.position == 0 {
			return l.ifKnown(l.sharedLocked(e, o))
		}
		return nil // this process knows a later one
	}
	ahead := e.position != 0
	e.uid, e.version, e.stored = o.UID, o.ResourceVersion, o.Status.Revision
	switch {
	case later(o, e.newest), !ahead && o.Status.Revision == e.newest.Status.Revision: // committed elsewhere, or edited by hand
		e.take(o)
		o = e.newest
	case o.Status.Revision == e.newest.Status.Revision:
		o = l.sharedLocked(e, o)
	case ahead:
		return l.ifKnown(e.dress(o))
	default: // somebody put an older one in its place, as from a backup: the newest state is written again
		l.behindLocked(e, l.positionLocked(e.newest))
		return l.ifKnown(e.dress(o))
	}
	l.caughtUpLocked(e)
	return l.ifKnown(o)
}

// firstLocked takes over a checkpoint of a CDEventSubject that this process does not know, unless it is outdated. It returns a state to
// tell of, if any.
func (l *Log) firstLocked(o *v1alpha1.CDEventSubject) *v1alpha1.CDEventSubject {
	latest := int64(0)
	if l.known { // before, the slots are not folded
		latest = l.latestLocked(o.Name)
	}
	if l.outdatedLocked(o, latest) {
		l.doubtLocked(o.Name)
		return nil
	}
	l.enterLocked(o, latest)
	return l.ifKnown(o)
}

// enterLocked takes a checkpoint for the newest state of a CDEventSubject. Slots have no revision above latest.
func (l *Log) enterLocked(o *v1alpha1.CDEventSubject, latest int64) {
	l.entries[o.Name] = &entry{newest: o, uid: o.UID, version: o.ResourceVersion, stored: o.Status.Revision, floor: latest}
}

// sharedLocked makes the informer's copy of a state the one that is kept. It is still the state of its commit.
func (l *Log) sharedLocked(e *entry, o *v1alpha1.CDEventSubject) *v1alpha1.CDEventSubject {
	if o.ResourceVersion != e.newest.ResourceVersion {
		shared := *o
		shared.ResourceVersion = e.newest.ResourceVersion
		o = &shared
	}
	e.newest = o
	return o
}

// dress gives the newest state what users and other controllers have written into the metadata of the checkpoint. It returns the state if
// that is something new.
func (e *entry) dress(checkpoint *v1alpha1.CDEventSubject) *v1alpha1.CDEventSubject {
	dressed := *e.newest
	if clothe(&dressed, checkpoint); equality.Semantic.DeepEqual(dressed.ObjectMeta, e.newest.ObjectMeta) {
		return nil
	}
	e.newest = &dressed
	return e.newest
}

// clothe gives a state the metadata of another that is not the controller's. The log has none of it.
func clothe(s, as *v1alpha1.CDEventSubject) {
	if as != nil {
		s.Labels, s.Annotations, s.Finalizers, s.OwnerReferences = as.Labels, as.Annotations, as.Finalizers, as.OwnerReferences
	}
}

func (l *Log) ifKnown(s *v1alpha1.CDEventSubject) *v1alpha1.CDEventSubject {
	if !l.known {
		return nil // Start tells
	}
	return s
}

// observeSlotLocked takes over a slot that the informer has seen.
func (l *Log) observeSlotLocked(ctx context.Context, o *v1alpha1.CDEventSubject) {
	number, ok := slotNumber(o.Name)
	if !ok || number >= len(l.ring) {
		return // another version of this program has more
	}
	position := o.Status.Sequence
	switch {
	case l.impossible(o, number):
		l.adoptLocked(ctx, o, number)
	case position == 0:
		if s := &l.ring[number]; s.version == "" {
			s.uid, s.version = o.UID, o.ResourceVersion
		}
	case !l.known:
		l.ahead[position] = o
		for p := range l.ahead {
			if p < position && l.numberOf(p) == l.numberOf(position) {
				delete(l.ahead, p)
			}
		}
	case position > l.end:
		l.ahead[position] = o
		l.foldAheadLocked(ctx)
		delete(l.ahead, position-int64(len(l.ring))) // it was overwritten
		l.wakeTeller()
	}
}

// maxPosition is more than a log ever reaches.
const maxPosition = 1 << 60

// impossible says that somebody has edited the position of a slot.
func (l *Log) impossible(o *v1alpha1.CDEventSubject, number int) bool {
	position := o.Status.Sequence
	if position == 0 {
		return len(o.Status.Compressed) > 0
	}
	return position < 0 || position > maxPosition || l.numberOf(position) != number
}

// adoptLocked takes over the states of a slot whose position is impossible. They are written to checkpoints first, and carried if the slot
// is overwritten before.
func (l *Log) adoptLocked(ctx context.Context, o *v1alpha1.CDEventSubject, number int) {
	if s := l.ring[number]; s.uid == o.UID && s.version == o.ResourceVersion {
		return
	}
	l.ring[number].uid, l.ring[number].version = o.UID, o.ResourceVersion
	c, err := contentOf(o)
	logging.FromContext(ctx).Errorw("A slot of the log was edited: its position cannot be", "slot", o.Name, "position", o.Status.Sequence, "error", err)
	if err == nil {
		l.ring[number].position, l.ring[number].records = nowhere, c.records()
	}
	for _, s := range c.states {
		if l.committedLocked(s, nowhere); l.entries[s.Name] != nil && l.entries[s.Name].position == nowhere {
			l.entries[s.Name].exposed = true
		}
	}
}

func (l *Log) foldAheadLocked(ctx context.Context) {
	for {
		o, ok := l.ahead[l.end+1]
		if !ok || l.own == l.end+1 {
			break
		}
		l.foldLocked(ctx, o)
	}
	for p := range l.ahead {
		if p <= l.end {
			delete(l.ahead, p)
		}
	}
}

// foldLocked takes over the content of a slot, whose position is the next one. What cannot be read, as after an edit by hand, is reported
// and passed over.
func (l *Log) foldLocked(ctx context.Context, o *v1alpha1.CDEventSubject) {
	number, ok := slotNumber(o.Name)
	if !ok || number >= len(l.ring) {
		return // another version of this program has more
	}
	c, err := contentOf(o)
	if err != nil {
		logging.FromContext(ctx).Errorw("A slot of the log cannot be read: what it has is lost unless it is in the CDEventSubjects", "error", err)
	}
	l.ring[number] = slot{uid: o.UID, version: o.ResourceVersion, position: c.position, records: c.records()}
	l.end = max(l.end, c.position)
	for _, s := range c.states {
		l.committedLocked(s, c.position)
	}
}

// committedLocked takes over a state that another process has committed, or carried.
func (l *Log) committedLocked(s *v1alpha1.CDEventSubject, position int64) {
	e := l.entries[s.Name]
	if e == nil {
		if l.listed && l.Finished(s) || l.droppedLocked(s.Name) >= s.Status.Revision {
			return // it was deleted since
		}
		e = &entry{}
		l.entries[s.Name] = e
	}
	switch {
	case later(s, e.newest):
		s = l.Lean(s)
		if e.uid != "" {
			s.UID = e.uid
		}
		clothe(s, e.newest)
		e.take(s)
		l.behindLocked(e, position)
		if l.known {
			l.tellLocked(e.newest)
		}
	case s.Status.Revision == e.newest.Status.Revision && (e.position != 0 || e.stored != s.Status.Revision):
		l.behindLocked(e, position)
	}
	switch {
	case e.version != "" || !l.Finished(e.newest):
	case l.listed:
		l.dropLocked(s.Name) // it was deleted since
	default:
		l.doubtLocked(s.Name)
	}
}

// forgetSlotLocked takes note that a slot was deleted, which nobody should do. What only it has is written to checkpoints first.
func (l *Log) forgetSlotLocked(o *v1alpha1.CDEventSubject) {
	number, ok := slotNumber(o.Name)
	if !ok || number >= len(l.ring) {
		return
	}
	delete(l.ahead, o.Status.Sequence)
	s := &l.ring[number]
	if s.uid != o.UID {
		return
	}
	s.uid, s.version = "", ""
	for _, r := range s.records {
		if e := l.entries[r.name]; e != nil && e.place != nil && e.position == s.position {
			e.exposed = true
			l.behind.MoveToFront(e.place)
		}
	}
}

// missingLocked takes note that a CDEventSubject was deleted, although it is needed. It is created again: at once if the ledger knows, or
// when its turn comes.
func (l *Log) missingLocked(name string) {
	if e := l.entries[name]; e != nil {
		if l.Finished(e.newest) {
			l.dropLocked(name)
			return
		}
		if e.uid, e.version, e.stored = "", "", -1; e.position == 0 {
			l.behindLocked(e, l.positionLocked(e.newest))
		}
	}
}

func (l *Log) dropLocked(name string) {
	e := l.entries[name]
	if e == nil {
		return
	}
	if l.Finished(e.newest) {
		l.dropped.Add(name, e.newest.Status.Revision)
	}
	l.caughtUpLocked(e)
	delete(l.entries, name)
}

// resync reads everything again, because positions are missing.
func (l *Log) resync(ctx context.Context) error {
	defer l.asks()()
	l.mu.Lock()
	before := make(map[string]string, len(l.entries))
	for name, e := range l.entries {
		before[name] = e.version
	}
	l.mu.Unlock()
	all, at, err := l.listAll(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	slots := map[int64]*v1alpha1.CDEventSubject{}
	for i := range all {
		o := l.Lean(&all[i])
		if l.gone[o.UID] {
			continue
		}
		delete(before, o.Name)
		switch {
		case isSlot(o):
			if number, ok := slotNumber(o.Name); ok && number < len(l.ring) {
				if l.impossible(o, number) {
					l.adoptLocked(ctx, o, number)
					continue
				}
				l.ring[number].uid, l.ring[number].version = o.UID, o.ResourceVersion
				if o.Status.Sequence > l.end {
					slots[o.Status.Sequence] = o
				}
			}
		case !l.Direct(o):
			if s := l.storedLocked(o); s != nil {
				l.tellLocked(s)
			}
		}
	}
	l.listedAt = at
	if l.foldAllLocked(ctx, slots) {
		l.dropAbsentLocked(before)
	}
	l.foldAheadLocked(ctx) // what the informer has delivered meanwhile
	return nil
}

// listAll reads everything at one moment, and returns its resourceVersion.
func (l *Log) listAll(ctx context.Context) (all []v1alpha1.CDEventSubject, at string, err error) {
	for o := (metav1.ListOptions{Limit: pageSize}); ; {
		page, err := l.client.List(ctx, o)
		if err != nil {
			return nil, "", fmt.Errorf("reading the log again: %w", err)
		}
		all = append(all, page.Items...)
		if o.Continue = page.Continue; o.Continue == "" {
			return all, page.ResourceVersion, nil
		}
	}
}

// dropAbsentLocked drops what has ended in positions that this process has missed: the API server lacks these CDEventSubjects, which
// were known in these versions before, and no slot has the newest state that this process knows. If one did not end, and was deleted by
// hand, those restore it who have missed nothing.
func (l *Log) dropAbsentLocked(versions map[string]string) {
	for name, version := range versions {
		e := l.entries[name]
		if e == nil || e.version != version || e.position > 0 && l.ring[l.numberOf(e.position)].position == e.position {
			continue
		}
		l.dropLocked(name)
		l.dropped.Add(name, e.newest.Status.Revision+1) // its last state had at least that
	}
}

// pageSize is how many objects a list has at a time.
const pageSize = 500

func keyOf(s *v1alpha1.CDEventSubject) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Spec.Namespace, Name: s.Spec.Name}
}

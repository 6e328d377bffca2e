// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Slots are read ahead of what the informer delivers. So the log may tell of the end of a CDEventSubject whose creation this process has
// not seen: that is still to come, or the object was deleted since and does not count any more. And the informer may deliver states of one
// that this process has dropped. Only the API server knows what exists.

// maxDoubts is how many are settled at a time.
const maxDoubts = 256

// maxDropped is how many dropped CDEventSubjects are remembered. The informer delivers what it still has of them within seconds.
const maxDropped = 4096

// outdatedLocked says that a checkpoint, of which this process knows nothing, is from before what it knows: slots have a later state, its
// last state was dropped, or a later list does not have it. Latest is the highest revision that slots have.
func (l *Log) outdatedLocked(checkpoint *v1alpha1.CDEventSubject, latest int64) bool {
	revision := checkpoint.Status.Revision // an earlier build writes none
	return l.known && revision > 0 && max(latest, l.droppedLocked(checkpoint.Name)) > revision ||
		l.listedAt != "" && !newer(checkpoint.ResourceVersion, l.listedAt)
}

// doubtLocked has the API server asked whether a CDEventSubject exists.
func (l *Log) doubtLocked(name string) {
	l.doubts[name] = true
	l.wakeTeller()
}

// doubtful returns some names that are in doubt.
func (l *Log) doubtful() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := slices.Sorted(maps.Keys(l.doubts)) // the order is fixed, so that a simulation can be repeated
	return names[:min(len(names), maxDoubts)]
}

// settle asks the API server for a CDEventSubject, if it is in doubt.
func (l *Log) settle(ctx context.Context, name string) error {
	l.mu.Lock()
	doubtful := l.doubts[name]
	l.mu.Unlock()
	if !doubtful {
		return nil
	}
	_, err := l.reread(ctx, name)
	return err
}

// reread asks the API server for a CDEventSubject, and takes over the answer, which settles a doubt. It returns nil if there is none.
func (l *Log) reread(ctx context.Context, name string) (*v1alpha1.CDEventSubject, error) {
	defer l.asks()()
	for range maxConflicts {
		if o, current, err := l.ask(ctx, name); current || err != nil {
			return o, err
		}
	}
	return nil, fmt.Errorf("reading CDEventSubject %s: it ended during each of %d requests; retrying later", name, maxConflicts)
}

// ask does so once. It returns false if the answer may be from before what this process has learned meanwhile: that the CDEventSubject has
// ended.
func (l *Log) ask(ctx context.Context, name string) (o *v1alpha1.CDEventSubject, current bool, err error) {
	l.mu.Lock()
	doubtful, before := l.doubts[name], l.versionLocked(name)
	known, dropped, listedAt := l.entries[name] != nil, l.droppedLocked(name), l.listedAt
	l.mu.Unlock()
	o, err = l.client.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		o = nil
	case err != nil:
		return nil, false, fmt.Errorf("reading CDEventSubject %s: %w", name, err)
	case l.Direct(o), isSlot(o):
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.doubts, name)
		return o, true, nil
	}
	var last *v1alpha1.CDEventSubject
	if o != nil {
		if last, err = l.lastOf(ctx, name); err != nil {
			return nil, false, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if o != nil && l.gone[o.UID] {
		o = nil
	}
	if o != nil && l.known && l.entries[name] == nil &&
		(known || l.droppedLocked(name) != dropped || l.listedAt != listedAt && !newer(o.ResourceVersion, l.listedAt)) {
		return nil, false, nil
	}
	if doubtful {
		delete(l.doubts, name)
	}
	switch {
	case !l.known:
	case o == nil && l.versionLocked(name) == before:
		l.missingLocked(name)
	case o == nil:
	case l.entries[name] != nil:
		if s := l.storedLocked(l.Lean(o)); s != nil {
			l.tellLocked(s)
		}
	default:
		l.enterLocked(l.Lean(o), l.latestLocked(name))
		if last != nil {
			l.committedLocked(last, l.positionLocked(last))
		} else {
			l.tellLocked(l.entries[name].newest)
		}
	}
	return o, true, nil
}

// asks notes that a request is under way whose answer may have what is deleted meanwhile. The returned function ends that.
func (l *Log) asks() (answered func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asking++; l.gone == nil {
		l.gone = map[types.UID]bool{}
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.asking--; l.asking == 0 {
			l.gone = nil
		}
	}
}

// goneLocked notes that an object was deleted, as long as an answer that is under way may have it.
func (l *Log) goneLocked(uid types.UID) {
	if l.asking > 0 {
		l.gone[uid] = true
	}
}

// heldLocked are the numbers of the slots that have states of a CDEventSubject, each with the revision that it has.
func (l *Log) heldLocked(name string) iter.Seq2[int, int64] {
	return func(yield func(int, int64) bool) {
		for number, s := range l.ring {
			for _, r := range s.records {
				if r.name == name && !yield(number, r.revision) {
					return
				}
			}
		}
	}
}

// latestLocked returns the highest revision of a CDEventSubject that a slot has, 0 for none.
func (l *Log) latestLocked(name string) (latest int64) {
	for _, revision := range l.heldLocked(name) {
		latest = max(latest, revision)
	}
	return latest
}

// positionLocked is that of the newest slot that has a state, nowhere if there is none.
func (l *Log) positionLocked(state *v1alpha1.CDEventSubject) int64 {
	position := int64(nowhere)
	for number, revision := range l.heldLocked(state.Name) {
		if revision == state.Status.Revision {
			position = max(position, l.ring[number].position)
		}
	}
	return position
}

// droppedLocked returns the revision of the last state of a CDEventSubject that was dropped, 0 for none.
func (l *Log) droppedLocked(name string) int64 {
	last, _ := l.dropped.Get(name)
	revision, _ := last.(int64)
	return revision
}

// versionLocked is the resourceVersion of the checkpoint, as far as this process knows.
func (l *Log) versionLocked(name string) string {
	if e := l.entries[name]; e != nil {
		return e.version
	}
	return ""
}

// lastOf reads the newest state of a CDEventSubject that this process has dropped from the slot that had it. It returns nil if the slot has
// something else by now: then whoever wrote that has written the checkpoint, or knows that there was none.
func (l *Log) lastOf(ctx context.Context, name string) (*v1alpha1.CDEventSubject, error) {
	l.mu.Lock()
	known, number, latest := l.entries[name] != nil, -1, int64(0)
	for n, revision := range l.heldLocked(name) {
		if revision >= latest {
			latest, number = revision, n
		}
	}
	l.mu.Unlock()
	if known || number < 0 {
		return nil, nil //nolint:nilnil // it is not dropped, or no slot has a state of it
	}
	o, err := l.client.Get(ctx, slotName(number), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // somebody has deleted the slot
	}
	if err != nil {
		return nil, fmt.Errorf("reading the end of CDEventSubject %s: %w", name, err)
	}
	c, _ := contentOf(o) // what cannot be read was reported when the slot was folded
	for _, s := range c.states {
		if s.Name == name && s.Status.Revision == latest {
			return s, nil
		}
	}
	return nil, nil //nolint:nilnil // see above
}

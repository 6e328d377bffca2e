// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// journalEnds journals the end of every object of this name that has another UID than the present
// one. It asks the API server first: a cache that lags must not end an object that is there.
func (f *fold) journalEnds(present types.UID, at time.Time) (endings, error) {
	var b endings
	for _, entry := range f.entries() {
		if entry.Spec.UID == present || entry.Status.Removed {
			continue
		}
		live, err := f.o.Kind.Live(f.ctx, f.key)
		if err != nil {
			return b, fmt.Errorf("asking the API server whether %s is gone: %w", f.key, err)
		}
		if live == entry.Spec.UID {
			// The cache lags. The missing states will arrive as updates.
			f.lagging, b.replaced = true, !f.journaled(present)
			continue
		}
		var next *behind
		err = f.o.Ledger.Journal(f.ctx, entry.Spec, func(current *v1alpha1.CDEventSubject) (*ledger.Change, error) {
			if next = nil; current == nil {
				return nil, nil //nolint:nilnil // another leader has done it
			}
			memory, err := f.memory(current)
			if err != nil {
				return nil, err
			}
			r, err := memory.End(f.ctx, at)
			if err != nil {
				return nil, fmt.Errorf("deciding what its end means: %w", err)
			}
			if r.Wait {
				f.waiting[entry.Spec.UID], b.wait = r.Memory.Waits(), true
				f.recheck = r.Wake
				return nil, nil //nolint:nilnil // something else must be gone first
			}
			if next, err = f.behindOf(current); err != nil {
				return nil, err
			}
			return r.change(), nil
		})
		if err != nil {
			return b, fmt.Errorf("journaling that %s (UID %s) is gone: %w", f.key, entry.Spec.UID, err)
		}
		if next != nil {
			f.behind = next
		}
	}
	return b, nil
}

// behind says which objects cannot have been announced before a time: those that were created before it, while the end
// of the object before them was not journaled. They may have waited for that end, and be long gone.
type behind struct {
	// after is when the ledger had the one before, and at is when its end was not journaled yet. Both are times of the API
	// server.
	after, at time.Time
}

// since is since when an object may have been announced.
func (b *behind) since(o *Object) time.Time {
	if b != nil && o.Created.After(b.after) && o.Created.Before(b.at) {
		return b.at
	}
	return o.Created
}

// behindOf returns what is behind an object whose end is about to be journaled, nil if that is nothing.
func (f *fold) behindOf(entry *v1alpha1.CDEventSubject) (*behind, error) {
	after := entry.CreationTimestamp.Time
	if entry.Status.Created != nil {
		after = entry.Status.Created.Time
	}
	i := slices.IndexFunc(f.steps, func(s step) bool {
		o := f.object(s)
		return o != nil && o.Created.After(after) && !f.journaled(o.UID)
	})
	if entry.Status.Removed || i < 0 {
		return nil, nil //nolint:nilnil // there is nothing
	}
	at, err := f.o.Ledger.Time(f.ctx, f.o.spec(f.key, f.object(f.steps[i]).UID))
	switch {
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		// As with a quota. An end needs no room, and must not wait until there is some.
		return nil, nil //nolint:nilnil // what is behind counts from its creation
	case err != nil:
		return nil, fmt.Errorf("asking the API server when %s is to end: %w", f.key, err)
	}
	return &behind{after: after, at: at}, nil
}

// endings is what journalEnds found out about the object that a step shows.
type endings struct {
	// wait says that the end of an object that had its name must wait, and it must wait with it.
	wait bool
	// replaced says that no event about it was sent, and that events about the object that has its name now were. Its own
	// events would follow those, and look like events about the present object.
	replaced bool
}

// journaled reports whether the ledger has an entry of an object.
func (f *fold) journaled(uid types.UID) bool {
	return uid == "" || slices.ContainsFunc(f.entries(),
		func(e *v1alpha1.CDEventSubject) bool { return e.Spec.UID == uid })
}

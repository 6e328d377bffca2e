// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// unsaved is a memory that is ahead of the ledger, and the state of the ledger that it is
// ahead of. Nothing was announced in between.
type unsaved struct {
	memory Memory
	ahead  string
}

// follow folds the steps that show the same object, in one write. It returns how many it used,
// none if the first must wait for another part.
func (f *fold) follow(first *Object, steps []step) (int, error) {
	if f.version(first.UID) == "" {
		forgotten, err := f.forgotten(first)
		if err != nil {
			return 0, err
		}
		if forgotten {
			f.lagging = true
			return f.span(first.UID, steps), nil
		}
	}
	var p pass
	err := f.o.Ledger.Journal(f.ctx, f.o.spec(f.key, first.UID),
		func(current *v1alpha1.CDEventSubject) (*ledger.Change, error) {
			var err error
			if p, err = f.pass(current, first, steps); err != nil {
				return nil, err
			}
			if p.used == 0 || !p.changed {
				return nil, nil //nolint:nilnil // nothing to write is no error
			}
			change := f.change(Result{Memory: p.memory, Transitions: p.transitions})
			change.At = f.now
			return change, nil
		})
	if err != nil || p.used == 0 {
		return 0, err
	}
	f.waiting[first.UID] = p.memory.Waits()
	if p.changed || f.saved(first.UID, p.memory) {
		// The ledger has it. A write without transitions leaves the sequence as it is, so an
		// older memory would still seem to be ahead.
		f.memories[string(first.UID)] = unsaved{}
		return p.used, nil
	}
	f.memories[string(first.UID)] = unsaved{memory: p.memory, ahead: f.version(first.UID)}
	return p.used, nil
}

// forgotten says whether an object that the ledger does not know may be one that was announced, is long gone, and is
// forgotten. The cache may lag, or this process was suspended, and its clock with it. So only the API server can say.
func (f *fold) forgotten(o *Object) (bool, error) {
	live, err := f.o.Kind.Live(f.ctx, f.key)
	if err != nil {
		return false, fmt.Errorf("asking the API server for %s, which the ledger does not know: %w", f.key, err)
	}
	since := f.behind.since(o)
	if live == o.UID || f.doubtful && since.Equal(o.Created) {
		return live != o.UID, nil
	}
	forgotten, err := f.o.Ledger.MayHaveForgotten(f.ctx, f.o.spec(f.key, o.UID), since)
	if err != nil {
		return false, fmt.Errorf("asking the API server how old %s is, which is gone: %w", f.key, err)
	}
	if forgotten {
		logging.FromContext(f.ctx).Warnw("An object came and went, and the ledger may have forgotten it, so nothing is "+
			"announced. If the API server refused writes of CDEventSubjects meanwhile, its events are lost",
			"key", f.key, "uid", o.UID, "created", o.Created)
	}
	return forgotten, nil
}

// saved says whether the ledger has all of a memory, apart from the versions of what was seen
// last: these are in the history.
func (f *fold) saved(uid types.UID, m Memory) bool {
	for _, entry := range f.entries() {
		if entry.Spec.UID != uid || entry.Status.Memory == "" {
			continue
		}
		stored, err := f.o.recall(entry)
		return err == nil && stored.Covers(m) // an error is reported where the memory is used
	}
	return false
}

// version names the state of the ledger for one object. Acknowledgements do not change it.
func (f *fold) version(uid types.UID) string {
	for _, s := range f.entries() {
		if s.Spec.UID == uid {
			return generation(s)
		}
	}
	return ""
}

// generation names the state of a CDEventSubject. Its own UID is part of it, because one that
// was deleted and put back counts anew.
func generation(s *v1alpha1.CDEventSubject) string {
	return fmt.Sprintf("%s/%d", s.UID, s.Status.Sequence)
}

// memory is the newest memory of an object. An unsaved one counts only as long as the ledger
// has not moved on.
func (f *fold) memory(current *v1alpha1.CDEventSubject) (Memory, error) {
	u, ok := f.memories[string(current.Spec.UID)] // of steps before, in this fold
	if !ok {
		u, ok = f.unsaved[string(current.Spec.UID)]
	}
	switch {
	case !ok, u.ahead == "", current.Status.Removed:
		// An object that is journaled as gone stays gone, whatever was seen before.
	case u.ahead == generation(current):
		return u.memory, nil
	default:
		return nil, errOvertaken
	}
	m, err := f.o.recall(current)
	if err != nil {
		return nil, err
	}
	waits, ok := f.waiting[current.Spec.UID]
	if !ok {
		waits = f.stored(current) // by a process that kept nothing in memory
	}
	return m.Waiting(waits), nil
}

// recall decodes the memory that the ledger holds.
func (o *Observer) recall(entry *v1alpha1.CDEventSubject) (Memory, error) {
	m, err := o.Kind.Recall([]byte(entry.Status.Memory))
	if err != nil {
		return nil, fmt.Errorf(
			"the memory in CDEventSubject %s cannot be read, as happens after a downgrade; no events about this object are sent until the newer version runs again: %w",
			entry.Name,
			err,
		)
	}
	return m, nil
}

// pass is one fold of an object's steps over one state of the ledger.
type pass struct {
	memory      Memory
	transitions []lifecycle.Transition
	used        int
	// changed says that there is something to write.
	changed bool
}

func (f *fold) pass(current *v1alpha1.CDEventSubject, first *Object, steps []step) (p pass, err error) {
	f.wake = time.Time{}
	known := current != nil
	if known {
		p.memory, err = f.memory(current)
	} else {
		p.memory, err = f.o.Kind.Recall(nil)
	}
	if err != nil {
		return p, err
	}
	if p.memory.Gone() {
		// This is no mistake, because the API server was asked. Later steps may show another
		// object of the same name.
		p.used = f.span(first.UID, steps)
		return p, nil
	}
	evaluated := false
	for _, s := range steps[:f.span(first.UID, steps)] {
		r, err := f.next(p.memory, s, !known && first.Created.Before(f.since))
		if err != nil {
			return p, err
		}
		f.lagging = f.lagging || r.Lagging
		if r.Wait {
			f.recheck = r.Wake
			break
		}
		p.used++
		if r.Memory == nil {
			continue
		}
		p.memory, f.wake, evaluated = r.Memory, r.Wake, true
		p.transitions = append(p.transitions, r.Transitions...)
		p.changed = p.changed || !known || len(r.Transitions) > 0 || r.Save
		known = true
	}
	p.changed = p.changed || evaluated && f.lasts(current, p.memory)
	return p, nil
}

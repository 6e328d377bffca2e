// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// fold is one pass over the history of one key.
type fold struct {
	ctx   context.Context
	o     *Observer
	track *track
	key   types.NamespacedName
	since time.Time
	now   time.Time

	steps []step
	// past holds the UIDs that the object is known to have had.
	past    []types.UID
	unsaved map[string]unsaved
	// waiting holds the waits of each UID. The ledger does not store them.
	waiting map[types.UID]map[lifecycle.Wait]time.Time
	// patient says that a missing part may still arrive.
	patient bool
	// doubtful says that the parts came from a cache that may lag.
	doubtful bool

	// behind is as in track.
	behind *behind
	// confirmed says until when a state of the last fold that failed, or of this one, is known to have lasted.
	confirmed confirmation
	// consumed holds the updates that were folded.
	consumed map[uint64]bool
	held     bool
	// lagging says that the API server is known to be ahead of the caches.
	lagging bool
	wake    time.Time
	// recheck is when to ask again for what the fold waits for, zero if that is not known.
	recheck  time.Time
	memories map[string]unsaved
}

// recovering turns a panic into an error. An object that cannot be folded must not stop events
// about all others. It is retried, as after any error.
func (f *fold) recovering(run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			logging.FromContext(f.ctx).Errorw("Folding an object panicked, which is a bug: please report it", "key", f.key,
				"panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("folding %s panicked: %v", f.key, p)
		}
	}()
	return run()
}

// run folds the steps in the order of time, object by object.
func (f *fold) run() error {
	f.memories = map[string]unsaved{}
	for i := 0; i < len(f.steps); {
		first := f.steps[i]
		if first.orphan(f.past) {
			wait, err := f.await(first.Changed.Owner)
			if err != nil || wait {
				return err
			}
		}
		object := f.object(first)
		if object == nil && first.id == 0 && len(f.steps) > 1 {
			i++ // no object yet: its parts are in the next step, too
			continue
		}
		uid := types.UID("")
		if object != nil {
			uid = object.UID
		}
		b, err := f.journalEnds(uid, first.At)
		if err != nil {
			return err
		}
		if b.wait {
			f.held = true
			return nil
		}
		n := 1
		switch {
		case object == nil:
		case b.replaced:
			n = f.span(uid, f.upTo(i))
		default:
			if n, err = f.follow(object, f.upTo(i)); err != nil {
				return err
			}
		}
		if n == 0 {
			f.held = true
			return nil
		}
		if err := f.journalBelated(f.steps[i:i+n], uid); err != nil {
			return err
		}
		for _, s := range f.steps[i : i+n] {
			f.consumed[s.id] = true
		}
		i += n
	}
	return nil
}

// upTo returns the steps from i on, as far as they can be folded together.
func (f *fold) upTo(i int) []step {
	for j := i + 1; j < len(f.steps); j++ {
		if f.steps[j].orphan(f.past) {
			return f.steps[i:j]
		}
	}
	return f.steps[i:]
}

// await says whether to wait for an object of which a part has arrived. The part may also
// belong to an object that was gone before this process started.
func (f *fold) await(owner types.UID) (bool, error) {
	f.held = true
	if f.patient {
		return true, nil
	}
	live, err := f.o.Kind.Live(f.ctx, f.key)
	if err != nil {
		return true, fmt.Errorf("asking the API server for %s, of which a part is known: %w", f.key, err)
	}
	f.held = live == owner
	return f.held, nil
}

// after is when the key must be reconciled again.
func (f *fold) after() time.Duration {
	d := time.Duration(0)
	switch {
	case !f.recheck.IsZero():
		d = f.recheck.Sub(f.o.Now())
	case f.held && f.patient:
		d = holdFor / 4
	case f.held, f.lagging:
		d = retryAfter
	case !f.wake.IsZero():
		d = f.wake.Sub(f.o.Now())
	}
	return max(d, time.Millisecond)
}

func (f *fold) object(s step) *Object { return f.o.Kind.Object(s.Parts) }

// span counts the steps that show the same object.
func (f *fold) span(uid types.UID, steps []step) int {
	for i, s := range steps {
		if object := f.object(s); object == nil || object.UID != uid {
			return i
		}
	}
	return len(steps)
}

// later returns the states that came after a step.
func (f *fold) later(from step) []State {
	var out []State
	after := false
	for _, s := range f.steps {
		if after {
			out = append(out, s.State)
		}
		after = after || s.id == from.id
	}
	return out
}

// entries are the CDEventSubjects of every object that has or had this name, as far as the
// ledger still has them.
func (f *fold) entries() []*v1alpha1.CDEventSubject {
	return f.o.Ledger.Subjects(f.o.ledgerKey(f.key))
}

// remembered are the UIDs that must be remembered: those that are not known to be gone, and
// the present one.
func (f *fold) remembered() map[types.UID]bool {
	out := map[types.UID]bool{}
	for _, entry := range f.entries() {
		out[entry.Spec.UID] = !entry.Status.Removed
	}
	for _, p := range f.track.base {
		if _, removed := out[p.Owner]; p.Root && !removed {
			out[p.Owner] = true
		}
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Kind is a watched kind. It knows what its objects consist of, what is remembered of them, and what counts as a
// transition; the observer knows none of this. A kind may also implement Confirmer and Positioned.
type Kind interface {
	// APIVersion and Name are those of the kind, as in "Service".
	APIVersion() string
	Name() string
	// Served is false when it is known that the API server has no such kind.
	Served() bool
	// Keys lists the objects that the caches hold any part of.
	Keys() []types.NamespacedName
	// Cached returns the parts of an object from the caches.
	Cached(key types.NamespacedName) Parts
	// Object returns the object that the parts show, nil if there is none.
	Object(p Parts) *Object
	// Live asks the API server for the UID of an object. It returns "" only if the
	// object is certainly gone.
	Live(ctx context.Context, key types.NamespacedName) (types.UID, error)
	// Recall decodes a memory that the ledger holds. Without any it returns the
	// memory of an object that nothing is known of.
	Recall(stored []byte) (Memory, error)
}

// Confirmer is a Kind of which something is announced that depends on how long a state has lasted. Of other kinds,
// such a transition (Result.Unsure) is never confirmed.
type Confirmer interface {
	Kind
	// Current asks the API server, and whatever else the parts come from, whether they are the present state of an
	// object, and have been at that time. The caches may lag, and the process may have been paused.
	Current(ctx context.Context, key types.NamespacedName, parts Parts, at time.Time) (bool, error)
}

// Positioned is a Kind with floating parts.
type Positioned interface {
	Kind
	// Position is the version as of which the caches hold floating parts, empty if
	// it is not known. It may be behind, and is never ahead.
	Position() string
}

// Key names an object in the ledger.
type Key = ledger.Key

// Object identifies a watched object.
type Object struct {
	UID     types.UID
	Created time.Time
}

// Memory is what a kind remembers of one object. A Memory is a value: no method changes it.
type Memory interface {
	ledger.Memory
	// Next folds the state of an object into the memory.
	Next(ctx context.Context, s Step) (Result, error)
	// End folds in that the object is gone. Wait in its result says that something else must be
	// gone first; End is called again at its Wake.
	End(ctx context.Context, at time.Time) (Result, error)
	// Replay repeats the present state for sources that have not received it.
	Replay(at time.Time) Result
	// Conditions are what the user should know of the object. They are written to
	// the ledger's entry.
	Conditions() []metav1.Condition
	// Covers says whether this memory has everything that another one has, apart from the
	// versions of what was seen.
	Covers(other Memory) bool
	// Waits says since when this process has waited, and for what. They are
	// measured by its own clock, and stored only if Options.Once is set.
	Waits() map[lifecycle.Wait]time.Time
	// Waiting returns the memory with these waits.
	Waiting(waits map[lifecycle.Wait]time.Time) Memory
}

// Step is one state of an object, and what else a kind may ask about it.
type Step struct {
	// Key names the object.
	Key types.NamespacedName
	// State is the state to fold in.
	State
	// Baseline says that the object was there before us, and nothing is remembered
	// of it: nothing is announced of what it is, only of what it becomes.
	Baseline bool
	// Later returns the states that came after it, oldest first.
	Later func() []State
	// Unconfirmed says that the state may be over by now. Nothing is to be decided by how long it has lasted.
	Unconfirmed bool
	// Patient says that a part which is missing may still come. Otherwise, the
	// kind asks the API server for it.
	Patient bool
}

// State is the state of all parts of an object after one update.
type State struct {
	Parts Parts
	// Changed is the part that the update brought. It has no name if the state is not
	// the result of an update.
	Changed Part
	// At is when the state was seen.
	At time.Time
	// Position is the version as of which the floating parts are known, empty if it is
	// not known.
	Position string
}

// Result is what follows from a memory and a state.
type Result struct {
	// Memory after it; nil if the state said nothing new, or could not be used.
	Memory      Memory
	Transitions []lifecycle.Transition
	// Save says that the memory must be written, even without any transition.
	Save bool
	// Wake is when the same state must be evaluated again, or zero.
	Wake time.Time
	// Unsure, if not zero, is when something was due that was not decided, because the state is unconfirmed.
	Unsure time.Time
	// Wait says that something is missing to decide. The state is folded again later: at Wake, or soon if that is zero.
	Wait bool
	// Lagging says that the API server is known to be ahead of the caches. The object is folded again soon, even if no
	// update comes that shows anything else.
	Lagging bool
}

// change is what a result has the ledger write.
func (r Result) change() *ledger.Change {
	return &ledger.Change{Memory: r.Memory, Transitions: r.Transitions, Conditions: r.Memory.Conditions()}
}

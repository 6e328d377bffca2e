// SPDX-License-Identifier: Apache-2.0

// Package follow tells others what is journaled: the informer's view of the CDEventSubjects goes to the ledger, and
// what another process wrote goes to the observers, which decide again.
//
// What this process journals, the ledger tells a tracer itself (package trace), with the write; what DORA counts is
// part of the write (package dora).
//
// Its invariant: every state of an entry that the informer sees reaches the ledger, in order.
package follow

import (
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// Ledger takes the states of its entries. ledger.Ledger implements it.
type Ledger interface {
	// Observe returns true if another process wrote the state.
	Observe(s *v1alpha1.CDEventSubject) bool
	// Forget takes the last state of an entry that was deleted. Certain means that no state after it was missed.
	Forget(s *v1alpha1.CDEventSubject, certain bool)
}

// Observers process the object of an entry again. observer.Registry implements it.
type Observers interface {
	Notify(key ledger.Key)
}

// Restarter is notified when the API server went back in time, as after a backup was restored. What this process
// remembers may then never have happened.
type Restarter interface {
	Reverted()
}

// Subjects follows the CDEventSubjects.
type Subjects struct {
	Ledger    Ledger
	Observers Observers
	Restarter Restarter
}

var _ cache.ResourceEventHandler = Subjects{}

// OnAdd implements cache.ResourceEventHandler.
func (f Subjects) OnAdd(obj any, _ bool) {
	if s, ok := obj.(*v1alpha1.CDEventSubject); ok {
		f.observe(s)
	}
}

// OnUpdate implements cache.ResourceEventHandler.
func (f Subjects) OnUpdate(before, obj any) {
	was, had := before.(*v1alpha1.CDEventSubject)
	s, ok := obj.(*v1alpha1.CDEventSubject)
	if !had || !ok {
		return
	}
	if older(s.ResourceVersion, was.ResourceVersion) {
		f.Restarter.Reverted()
	}
	f.observe(s)
}

// OnDelete implements cache.ResourceEventHandler.
func (f Subjects) OnDelete(obj any) {
	tombstone, missed := obj.(cache.DeletedFinalStateUnknown)
	if missed {
		obj = tombstone.Obj
	}
	if s, ok := obj.(*v1alpha1.CDEventSubject); ok {
		f.Ledger.Forget(s, !missed)
		f.Observers.Notify(ledger.KeyOf(s.Spec)) // the observer drops its memory of the object
	}
}

func (f Subjects) observe(s *v1alpha1.CDEventSubject) {
	if f.Ledger.Observe(s) {
		f.Observers.Notify(ledger.KeyOf(s.Spec))
	}
}

// older reports whether the resourceVersion a is older than b. It is false if they cannot be compared. An informer
// lists nothing that is older than what it knew, so an older version of an entry is never a matter of caches.
func older(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}

// Lean is a cache.TransformFunc: the cache holds no more of an entry than the ledger needs.
func Lean(obj any) (any, error) {
	if s, ok := obj.(*v1alpha1.CDEventSubject); ok {
		return ledger.Lean(s), nil
	}
	return obj, nil
}

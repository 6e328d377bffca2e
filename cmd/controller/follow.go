// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// sourcesFollowed handles changes of sources.
func (e *emitting) sourcesFollowed() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { with(obj, e.source) },
		UpdateFunc: func(before, obj any) {
			withBoth(before, obj, func(was, s *v1alpha1.CDEventSource) {
				if was.Generation == s.Generation {
					e.delivery.UpdateSource(s)
					return
				}
				e.source(s)
				if was.DeletionTimestamp == nil && s.DeletionTimestamp != nil {
					e.leaves(s)
				}
			})
		},
		DeleteFunc: func(obj any) {
			with(obj, func(s *v1alpha1.CDEventSource) {
				e.delivery.DeleteSource(s.UID)
				e.filters.Forget(s.UID)
				e.router.Forget(s.UID)
				e.leaves(s)
			})
		},
	}
}

// subjectsFollowed handles changes of ledger entries.
func (e *emitting) subjectsFollowed() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { with(obj, e.ledgered) },
		UpdateFunc: func(before, obj any) {
			withBoth(before, obj, func(was, s *v1alpha1.CDEventSubject) {
				if observer.WentBack(was.ResourceVersion, s.ResourceVersion) {
					e.reverted()
				}
				e.ledgered(s)
			})
		},
		DeleteFunc: func(obj any) {
			_, missed := obj.(cache.DeletedFinalStateUnknown)
			with(obj, func(s *v1alpha1.CDEventSubject) {
				e.ledger.Forget(s, !missed)
				e.refresh(s) // the observer drops its memory of the object
			})
		},
	}
}

// source handles a new or changed source.
func (e *emitting) source(s *v1alpha1.CDEventSource) {
	e.delivery.UpdateSource(s)
	if s.Spec.Replay == v1alpha1.ReplayCurrent && s.DeletionTimestamp == nil {
		e.lookAgain(e.seen(s))
	}
}

// leaves handles a deleted source. Another one may now be within the limit, and receive
// the current state.
func (e *emitting) leaves(s *v1alpha1.CDEventSource) {
	for _, in := range e.router.LetIn(s) {
		if in.Spec.Replay == v1alpha1.ReplayCurrent {
			e.lookAgain(e.seen(in))
		}
	}
}

// seen is the namespace whose events a source receives.
func (e *emitting) seen(s *v1alpha1.CDEventSource) string {
	if s.Namespace == e.router.SystemNamespace && s.Spec.NamespaceSelector != nil {
		return everywhere
	}
	return s.Namespace
}

// relabelled handles a namespace that is new or has other labels: a source that receives
// the current state may select it now.
func (e *emitting) relabelled(namespace string) {
	if slices.ContainsFunc(e.allSources(), func(s *v1alpha1.CDEventSource) bool {
		return s.Spec.Replay == v1alpha1.ReplayCurrent && s.Spec.NamespaceSelector != nil
	}) {
		e.lookAgain(namespace)
	}
}

// lookAgain makes the observer process the objects of a namespace again, or all.
func (e *emitting) lookAgain(namespace string) {
	e.again.want(namespace, func(in map[string]bool) {
		these := func(key types.NamespacedName) bool {
			// Cluster-scoped environments are for the sources of the controller's namespace.
			return in[everywhere] || in[cmp.Or(key.Namespace, e.router.SystemNamespace)]
		}
		if ob := e.services.Load(); ob != nil {
			ob.LookAgain(these)
		}
		if ob := e.environments.Load(); ob != nil {
			ob.LookAgain(these)
		}
	})
}

// ledgered handles the newest state of a ledger entry. If another process wrote it, the observer decides
// again.
func (e *emitting) ledgered(s *v1alpha1.CDEventSubject) {
	if e.ledger.Observe(s) {
		e.refresh(s)
	}
}

// refresh makes the observer process the object of a ledger entry again.
func (e *emitting) refresh(s *v1alpha1.CDEventSubject) {
	key := ledger.KeyOf(s.Spec)
	if ob := e.services.Load(); ob != nil {
		ob.Ledgered(key)
	}
	if ob := e.environments.Load(); ob != nil {
		ob.Ledgered(key)
	}
}

var errReverted = errors.New("the API server has gone back in time, as after a backup was restored: " +
	"what this process remembers may never have happened, so it exits and is restarted")

// reverted stops the process, and writes nothing of its memory, which is invalid.
func (e *emitting) reverted() {
	e.ledger.Discard()
	e.end(errReverted)
}

// with calls f with the object of an informer's event.
func with[T any](obj any, f func(T)) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	if typed, ok := obj.(T); ok {
		f(typed)
	}
}

// withBoth calls f with both versions of an updated object.
func withBoth[T any](before, obj any, f func(was, is T)) {
	with(before, func(was T) {
		with(obj, func(is T) { f(was, is) })
	})
}

package main

import (
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// sourcesFollowed is what follows from a change of a source.
func (p *process) sourcesFollowed() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { with(obj, p.source) },
		UpdateFunc: func(before, obj any) {
			withBoth(before, obj, func(was, s *v1alpha1.CDEventSource) {
				if was.Generation == s.Generation {
					p.delivery.UpdateSource(s)
					return
				}
				p.source(s)
				if was.DeletionTimestamp == nil && s.DeletionTimestamp != nil {
					p.leaves(s)
				}
			})
		},
		DeleteFunc: func(obj any) {
			with(obj, func(s *v1alpha1.CDEventSource) {
				p.delivery.DeleteSource(s.UID)
				p.filters.Forget(s.UID)
				p.router.Forget(s.UID)
				p.leaves(s)
			})
		},
	}
}

// subjectsFollowed is what follows from a change of an entry of the ledger.
func (p *process) subjectsFollowed() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { with(obj, p.ledgered) },
		UpdateFunc: func(before, obj any) {
			withBoth(before, obj, func(was, s *v1alpha1.CDEventSubject) {
				if observer.WentBack(was.ResourceVersion, s.ResourceVersion) {
					p.reverted()
				}
				p.ledgered(s)
			})
		},
		DeleteFunc: func(obj any) {
			_, missed := obj.(cache.DeletedFinalStateUnknown)
			with(obj, func(s *v1alpha1.CDEventSubject) {
				p.ledger.Forget(s, !missed)
				p.look(s) // the observer lets go of what it kept of the object
			})
		},
	}
}

// source takes note of a source that is new or was changed.
func (p *process) source(s *v1alpha1.CDEventSource) {
	p.delivery.UpdateSource(s)
	if s.Spec.Replay == v1alpha1.ReplayCurrent && s.DeletionTimestamp == nil {
		p.lookAgain(p.seen(s))
	}
}

// leaves takes note of a source that makes room: one that was too many may be waiting to
// be told of the present state.
func (p *process) leaves(s *v1alpha1.CDEventSource) {
	for _, in := range p.router.LetIn(s) {
		if in.Spec.Replay == v1alpha1.ReplayCurrent {
			p.lookAgain(p.seen(in))
		}
	}
}

// seen is the namespace that a source is told of.
func (p *process) seen(s *v1alpha1.CDEventSource) string {
	if s.Namespace == p.router.SystemNamespace && s.Spec.NamespaceSelector != nil {
		return everywhere
	}
	return s.Namespace
}

// relabelled takes note of a namespace that is new or has other labels: a source that
// is told of the present state may select it now.
func (p *process) relabelled(namespace string) {
	if slices.ContainsFunc(p.allSources(), func(s *v1alpha1.CDEventSource) bool {
		return s.Spec.Replay == v1alpha1.ReplayCurrent && s.Spec.NamespaceSelector != nil
	}) {
		p.lookAgain(namespace)
	}
}

// lookAgain has the objects of a namespace looked at again, or all.
func (p *process) lookAgain(namespace string) {
	p.again.want(namespace, func(in map[string]bool) {
		if ob := p.services.Load(); ob != nil {
			ob.LookAgain(func(key types.NamespacedName) bool { return in[everywhere] || in[key.Namespace] })
		}
	})
}

// ledgered takes note of an entry of the ledger. Where another process has
// written it, what was decided without it is looked at again.
func (p *process) ledgered(s *v1alpha1.CDEventSubject) {
	if p.ledger.Observe(s) {
		p.look(s)
	}
}

func (p *process) look(s *v1alpha1.CDEventSubject) {
	if ob := p.services.Load(); ob != nil {
		ob.Ledgered(ledger.KeyOf(s.Spec))
	}
}

var errReverted = errors.New("the API server has gone back in time, as after a backup was restored: " +
	"what this process remembers may never have happened, so it exits and is restarted")

// reverted ends a process whose memory is worth nothing any more, and writes nothing of it.
func (p *process) reverted() {
	p.ledger.Discard()
	p.end(errReverted)
}

// with calls f with the object that an informer's handler was given.
func with[T any](obj any, f func(T)) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	if typed, ok := obj.(T); ok {
		f(typed)
	}
}

// withBoth calls f with an object as it was before an update, and as it is now.
func withBoth[T any](before, obj any, f func(was, is T)) {
	with(before, func(was T) {
		with(obj, func(is T) { f(was, is) })
	})
}

// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Recipients are the sources that events are sent to. delivery.Delivery implements it.
type Recipients interface {
	UpdateSource(s *v1alpha1.CDEventSource)
	DeleteSource(source types.UID)
}

// Remembers is what remembers something of each source.
type Remembers interface {
	Forget(source types.UID)
}

// Router chooses the recipients of events. route.Router implements it.
type Router interface {
	Remembers
	// LetIn returns the sources that are within the limit because another one is deleted.
	LetIn(deleted *v1alpha1.CDEventSource) []*v1alpha1.CDEventSource
}

// Objects are the watched objects. observer.Registry implements it.
type Objects interface {
	// Requeue processes the objects with these keys again.
	Requeue(these func(types.NamespacedName) bool)
}

// Changes passes on changes of sources. Objects are processed again if a source may be due to receive their current
// state.
type Changes struct {
	recipients Recipients
	filters    Remembers
	router     Router
	objects    Objects
	sources    Lister
	// system is the only namespace whose sources may see others, and cluster-scoped objects.
	system  string
	pending batch
}

// NewChanges returns Changes for the sources of a lister.
func NewChanges(recipients Recipients, filters Remembers, router Router, objects Objects, sources Lister,
	system string,
) *Changes {
	return &Changes{
		recipients: recipients, filters: filters, router: router, objects: objects, sources: sources, system: system,
		pending: batch{every: batchEvery},
	}
}

var _ cache.ResourceEventHandler = (*Changes)(nil)

// OnAdd implements cache.ResourceEventHandler, for sources.
func (c *Changes) OnAdd(obj any, _ bool) {
	if s, ok := obj.(*v1alpha1.CDEventSource); ok {
		c.update(s)
	}
}

// OnUpdate implements cache.ResourceEventHandler, for sources.
func (c *Changes) OnUpdate(before, obj any) {
	was, had := before.(*v1alpha1.CDEventSource)
	s, ok := obj.(*v1alpha1.CDEventSource)
	switch {
	case !had || !ok:
		return
	case was.UID != s.UID: // deleted and made again while the watch was interrupted
		c.OnDelete(was)
		c.update(s)
		return
	case was.Generation == s.Generation:
		c.recipients.UpdateSource(s)
		return
	}
	c.update(s)
	if was.DeletionTimestamp == nil && s.DeletionTimestamp != nil {
		c.replace(s)
	}
}

// OnDelete implements cache.ResourceEventHandler, for sources.
func (c *Changes) OnDelete(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	s, ok := obj.(*v1alpha1.CDEventSource)
	if !ok {
		return
	}
	c.recipients.DeleteSource(s.UID)
	c.filters.Forget(s.UID)
	c.router.Forget(s.UID)
	c.replace(s)
}

// update takes a new or changed source.
func (c *Changes) update(s *v1alpha1.CDEventSource) {
	c.recipients.UpdateSource(s)
	if s.Spec.Replay == v1alpha1.ReplayCurrent && s.DeletionTimestamp == nil {
		c.requeue(c.visible(s))
	}
}

// replace takes a deleted source. Another one may now be within the limit, and receive the current state.
func (c *Changes) replace(s *v1alpha1.CDEventSource) {
	for _, in := range c.router.LetIn(s) {
		if in.Spec.Replay == v1alpha1.ReplayCurrent {
			c.requeue(c.visible(in))
		}
	}
}

// visible is the namespace whose events a source receives.
func (c *Changes) visible(s *v1alpha1.CDEventSource) string {
	if s.Namespace == c.system && s.Spec.NamespaceSelector != nil {
		return everywhere
	}
	return s.Namespace
}

// Relabelled takes a namespace that is new or has other labels: a source that receives the current state may select
// it now.
func (c *Changes) Relabelled(namespace string) {
	if slices.ContainsFunc(c.sources.All(), func(s *v1alpha1.CDEventSource) bool {
		return s.Spec.Replay == v1alpha1.ReplayCurrent && s.Spec.NamespaceSelector != nil
	}) {
		c.requeue(namespace)
	}
}

// requeue processes the objects of a namespace again, or all.
func (c *Changes) requeue(namespace string) {
	c.pending.add(namespace, func(in map[string]bool) {
		c.objects.Requeue(func(key types.NamespacedName) bool {
			// Cluster-scoped environments are for the sources of the controller's namespace.
			return in[everywhere] || in[cmp.Or(key.Namespace, c.system)]
		})
	})
}

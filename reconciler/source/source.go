// SPDX-License-Identifier: Apache-2.0

// Package source maintains the status of CDEventSources: it resolves their sinks,
// reports what is wrong with their specs, and shows the state of their deliveries.
//
// Its invariant: it writes only the status of CDEventSources, and only when the status
// changes. Of other objects it gets, lists and watches only those that a source
// references as its sink. Package credentials handles credentials; their values never
// reach this package. A status never shows an address that does not result from its
// current spec.
package source

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/hosts"
)

// interval is how often an unchanged source is reconciled, and the least time between
// two status updates that differ in deliveries only.
const interval = 10 * time.Second

// Deliveries reports the state of the deliveries to a source.
type Deliveries interface {
	// SourceStatus returns the number of pending events, the times of the oldest one and
	// of the last delivery, and the current trouble, if any.
	SourceStatus(uid types.UID) (pending int64, oldest, last time.Time, trouble string)
}

// Credentials looks up the credentials of sources.
type Credentials interface {
	For(ctx context.Context, refs credentials.References, sink *url.URL) (credentials.Values, error)
}

// Settings are those of the operator. store.Store implements it. All sources must be enqueued when they change.
type Settings interface {
	// SinkHosts are the hosts that sinks must be among; any if the list is empty.
	SinkHosts() hosts.List
	// ClusterURI is what events have as their source.
	ClusterURI() string
}

// Leader says which sources' status this process writes. Other processes only add the results of their own
// deliveries. All sources must be enqueued when it changes.
type Leader interface {
	IsLeaderFor(source types.NamespacedName) bool
}

// Reconciler updates the status of sources.
type Reconciler struct {
	reconciler.LeaderAwareFuncs

	client      *client.Clientset
	lister      client.SourceLister
	sinks       *sinks
	deliveries  Deliveries
	credentials Credentials
	settings    Settings
	// system is the namespace whose sources may select other namespaces.
	system string
	now    func() time.Time
	// leader replaces an election of our own; may be nil.
	leader Leader

	written writes
	checked checked
}

var (
	_ controller.Reconciler  = (*Reconciler)(nil)
	_ reconciler.LeaderAware = (*Reconciler)(nil)
)

// IsLeaderFor implements reconciler.LeaderAware.
func (r *Reconciler) IsLeaderFor(key types.NamespacedName) bool {
	if r.leader != nil {
		return r.leader.IsLeaderFor(key)
	}
	return r.LeaderAwareFuncs.IsLeaderFor(key)
}

// Reconcile implements controller.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, reconciler.DefaultTimeout)
	defer cancel()

	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return controller.NewPermanentError(fmt.Errorf("reading the key %q: %w", key, err))
	}
	source := types.NamespacedName{Namespace: namespace, Name: name}
	leads := r.IsLeaderFor(source)
	if !leads {
		r.sinks.forget(source)
		if r.deliveries == nil {
			return controller.NewSkipKey(key)
		}
	}
	before, err := r.lister.Namespaced(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		r.sinks.forget(source)
		r.written.forget(source)
		r.checked.forget(source)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading CDEventSource %s: %w", source, err)
	}
	if before.DeletionTimestamp != nil {
		r.sinks.forget(source)
		return nil
	}

	after := before.DeepCopy()
	if leads {
		r.computeStatus(ctx, after)
	} else {
		r.reportOwn(after)
	}
	keepTransitionTimes(before, after)
	return r.write(ctx, before, after)
}

// write stores a changed status. It always requeues: nothing can be watched that
// announces changes in deliveries.
func (r *Reconciler) write(ctx context.Context, before, after *v1alpha1.CDEventSource) error {
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return controller.NewRequeueAfter(interval)
	}
	source := types.NamespacedName{Namespace: after.Namespace, Name: after.Name}
	now := r.now()
	if onlyDeliveriesDiffer(before, after) {
		if wait := r.written.wait(source, now); wait > 0 {
			return controller.NewRequeueAfter(wait)
		}
	}
	if _, err := r.client.CDEventSources(after.Namespace).UpdateStatus(ctx, after, metav1.UpdateOptions{}); err != nil {
		if apierrors.IsNotFound(err) {
			return nil // deleted in the meantime
		}
		if apierrors.IsConflict(err) {
			return controller.NewRequeueAfter(time.Second) // by then the cache has the conflicting write
		}
		return fmt.Errorf("writing the status of CDEventSource %s: %w", source, err)
	}
	r.written.at(source, now)
	return controller.NewRequeueAfter(interval)
}

// promote enqueues every source in a bucket that this process now leads.
func (r *Reconciler) promote(b reconciler.Bucket, enqueue func(reconciler.Bucket, types.NamespacedName)) error {
	all, err := r.lister.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing CDEventSources: %w", err)
	}
	for _, s := range all {
		enqueue(b, types.NamespacedName{Namespace: s.Namespace, Name: s.Name})
	}
	return nil
}

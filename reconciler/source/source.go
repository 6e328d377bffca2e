// Package source keeps the status of CDEventSources: it finds their sinks, says
// what is wrong with their specs, and shows how their deliveries stand.
//
// Its invariant: it writes nothing but the status of CDEventSources, and that
// only when it says something new. Of other people's objects it gets, lists and
// watches the very ones that a source names as its sink, and no more; what is
// shown to sinks it leaves to package credentials, and sees no value of it. A
// status never shows an address that its own spec, as it is now, does not lead to.
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
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery/hosts"
)

// interval is how often a source is looked at without being changed, and the
// least time between two writes that only say how deliveries stand.
const interval = 10 * time.Second

// Deliveries says how the deliveries to a source stand.
type Deliveries interface {
	// SourceStatus returns how much is owed, since when, when it was last delivered,
	// and what goes wrong, if anything.
	SourceStatus(uid types.UID) (pending int64, oldest, last time.Time, trouble string)
}

// Credentials finds what sources show to their sinks.
type Credentials interface {
	For(ctx context.Context, w credentials.Want, sink *url.URL) (credentials.Shown, error)
}

// Reconciler brings the status of sources up to date.
type Reconciler struct {
	reconciler.LeaderAwareFuncs

	client      *client.Clientset
	lister      client.SourceLister
	sinks       *sinks
	deliveries  Deliveries
	credentials Credentials
	// hosts that sinks must be among; where the list is empty, any.
	hosts func() hosts.List
	// cluster is the URI that events name as their source.
	cluster func() string
	// system is the namespace whose sources may select other namespaces.
	system string
	now    func() time.Time
	// leads stands in for an election of our own; may be nil.
	leads func(types.NamespacedName) bool

	written writes
	checked checked
}

var (
	_ controller.Reconciler  = (*Reconciler)(nil)
	_ reconciler.LeaderAware = (*Reconciler)(nil)
)

// IsLeaderFor implements reconciler.LeaderAware.
func (r *Reconciler) IsLeaderFor(key types.NamespacedName) bool {
	if r.leads != nil {
		return r.leads(key)
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
		r.judge(ctx, after)
	} else {
		r.tell(after)
	}
	groom(before, after)
	return r.write(ctx, before, after)
}

// write stores a status that says something new. It always asks to be called
// again: how deliveries stand changes without anything that could be watched.
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
			return nil // deleted meanwhile
		}
		if apierrors.IsConflict(err) {
			return controller.NewRequeueAfter(time.Second) // by then it is known what another one wrote
		}
		return fmt.Errorf("writing the status of CDEventSource %s: %w", source, err)
	}
	r.written.at(source, now)
	return controller.NewRequeueAfter(interval)
}

// promote enqueues everything in a bucket that this process now leads.
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

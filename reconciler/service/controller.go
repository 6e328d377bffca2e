// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/leaderelection"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"
	"knative.dev/serving/pkg/client/clientset/versioned"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// workers fold keys in parallel. Each of them waits for one write at a time.
const workers = 32

// tidyEvery is how often old history is removed that no update removes.
const tidyEvery = 30 * time.Second

// Options configure the controller.
type Options struct {
	observer.Options
	Client   versioned.Interface
	Presence *observer.Presence
	// Carried are the annotations that events need.
	Carried []string
	// Rules are asked for with every transition.
	Rules func() lifecycle.Rules
	// Changed is called with each Service of which the caches gain or lose a part. It must not block.
	Changed func(types.NamespacedName)
}

// Watch is the watch of Knative Services.
type Watch struct {
	*observer.Observer
	kind *Kind
}

// Snapshot returns a Service as the caches have it; false if there is none.
func (w *Watch) Snapshot(key types.NamespacedName) (uid types.UID, s lifecycle.Snapshot, exists bool) {
	if c := Compose(w.kind.Cached(key)); c != nil {
		return c.UID, c.Snapshot, true
	}
	return "", s, false
}

// AskPolls has a Service's cluster asked for before something is announced that depends on how long its state has
// lasted. Polled returns when its last poll began, and the version of what that found.
func (w *Watch) AskPolls(polled func(types.NamespacedName) (time.Time, string)) {
	w.kind.askPolls(polled)
}

// Keys lists the Services that the caches hold any part of.
func (w *Watch) Keys() []types.NamespacedName { return w.kind.Keys() }

// Has reports whether Keys lists a Service.
func (w *Watch) Has(key types.NamespacedName) bool { return w.kind.has(key) }

// Declared lists the Services that declare a stateful cluster, or try to.
func (w *Watch) Declared() map[types.NamespacedName]Declared { return w.kind.declared() }

// Declared is what the Revisions of a Service declare about its stateful cluster.
type Declared struct {
	UID types.UID
	// Stateful says that one of them declares a cluster.
	Stateful bool
	// Wrong says that the annotations of the newest one are not valid.
	Wrong bool
}

// NewController returns the controller that watches Knative Services.
func NewController(ctx context.Context, o Options) (*controller.Impl, *Watch) {
	k := NewKind(o.Client, o.Carried, func() bool { return !o.Presence.Synced() || o.Presence.Has(definitions...) }, o.Rules)
	if o.Changed == nil {
		o.Changed = func(types.NamespacedName) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Kind = k
	ob := observer.New(o.Options)
	impl := controller.NewContext(ctx, ob, controller.ControllerOptions{
		WorkQueueName: "Services", Logger: logging.FromContext(ctx), Concurrency: workers,
	})
	ob.Bind(impl)
	go o.Presence.While(ctx, definitions, func(ctx context.Context) {
		if err := k.watch(ctx, ob, o.Changed); err != nil {
			logging.FromContext(ctx).Errorw("Knative Serving cannot be watched", "error", err)
		}
		k.Use(nil, nil)
	}, ob.Stop)
	go wait.UntilWithContext(ctx, func(context.Context) { ob.Tidy() }, tidyEvery)
	if !leaderelection.HasLeaderElection(ctx) {
		// Without leader election, the observer is not promoted in the way that starts
		// from the ledger.
		if err := ob.Promote(reconciler.UniversalBucket(), func(reconciler.Bucket, types.NamespacedName) {}); err != nil {
			logging.FromContext(ctx).Errorw("Leading without leader election failed", "error", err)
		}
	}
	return impl, &Watch{Observer: ob, kind: k}
}

// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"
	"knative.dev/serving/pkg/client/clientset/versioned"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// workers fold keys in parallel. Each of them waits for one write at a time.
const workers = 32

// tidyEvery is how often old history is removed that no update removes.
const tidyEvery = 30 * time.Second

// Watch is the watch of Knative Services.
type Watch struct {
	*observer.Observer
	kind     *Kind
	presence *observer.Presence
	// changed are called with each Service of which the caches gain or lose a part.
	changed []func(types.NamespacedName)
}

var _ observer.Watch = (*Watch)(nil)

// New returns the watch of Knative Services, and its controller, which takes part in the election for all kinds.
func New(ctx context.Context, shared observer.Shared, client versioned.Interface) (*controller.Impl, *Watch) {
	k := NewKind(client, shared.Carried, shared.Presence, shared.Settings)
	w := &Watch{kind: k, presence: shared.Presence}
	impl := controller.NewContext(ctx, shared.Registry.Elects(w), controller.ControllerOptions{
		WorkQueueName: w.Name(), Logger: logging.FromContext(ctx), Concurrency: workers,
	})
	w.Observer = shared.Observe(ctx, k, Resource, impl)
	return impl, w
}

// Name implements observer.Watch.
func (*Watch) Name() string { return "Services" }

// Resources implements observer.Watch.
func (*Watch) Resources() []schema.GroupVersionResource { return slices.Clone(resources) }

// Run implements observer.Watch. Serving may come and go meanwhile.
func (w *Watch) Run(ctx context.Context) {
	go wait.UntilWithContext(ctx, func(context.Context) { w.Tidy() }, tidyEvery)
	w.presence.While(ctx, definitions(), func(ctx context.Context) {
		if err := w.kind.watch(ctx, w.Observer, w.notify); err != nil {
			logging.FromContext(ctx).Errorw("Knative Serving cannot be watched", "error", err)
		}
		w.kind.Use(nil, nil)
	}, w.Stop)
}

// OnChange has f called with each Service of which the caches gain or lose a part. It must not block. Call OnChange
// before Run.
func (w *Watch) OnChange(f func(types.NamespacedName)) { w.changed = append(w.changed, f) }

func (w *Watch) notify(service types.NamespacedName) {
	for _, f := range w.changed {
		f(service)
	}
}

// Snapshot returns a Service as the caches have it; false if there is none.
func (w *Watch) Snapshot(key types.NamespacedName) (uid types.UID, s lifecycle.Snapshot, exists bool) {
	if c := Compose(w.kind.Cached(key)); c != nil {
		return c.UID, c.Snapshot, true
	}
	return "", s, false
}

// Clusters are the stateful clusters of Services.
type Clusters interface {
	// Polled returns when the last poll of a Service's cluster began, and the version of what that found.
	Polled(service types.NamespacedName) (began time.Time, version string)
	// Sidecar returns the image of the sidecar in the pods of a Revision, empty if they have none.
	Sidecar(service types.NamespacedName, revision types.UID) string
}

// UseClusters has a Service's cluster polled again before something is announced that depends on how long its state has
// lasted, and its Revisions announced with the sidecars that their pods have.
func (w *Watch) UseClusters(c Clusters) { w.kind.useClusters(c) }

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

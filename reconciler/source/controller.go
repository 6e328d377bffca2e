package source

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection/clients/dynamicclient"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/system"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
)

// workers is more than Knative's two: the first look at a sink waits for the API
// server.
const workers = 4

// NewController makes the controller for CDEventSources from an informer that the
// caller starts. deliveries may be nil. leads says whether this process writes a
// source's status, nil for an election of its own: only the process that delivers
// knows how a sink answers. Whoever gives it enqueues all sources when it changes.
func NewController(ctx context.Context, cs *client.Clientset, sources cache.SharedIndexInformer, deliveries Deliveries,
	leads func(types.NamespacedName) bool,
) *controller.Impl {
	return newController(ctx, cs, sources, deliveries, leads, kubeclient.Get(ctx).Discovery(), dynamicclient.Get(ctx))
}

func newController(ctx context.Context, cs *client.Clientset, sources cache.SharedIndexInformer, deliveries Deliveries,
	leads func(types.NamespacedName) bool, disco discovery.ServerResourcesInterface, dyn dynamic.Interface,
) *controller.Impl {
	logger := logging.FromContext(ctx)
	r := &Reconciler{
		client:     cs,
		lister:     client.NewSourceLister(sources.GetIndexer()),
		deliveries: deliveries,
		system:     system.Namespace(),
		now:        time.Now,
		leads:      leads,
	}
	r.PromoteFunc = r.promote
	impl := controller.NewContext(ctx, r, controller.ControllerOptions{
		WorkQueueName: "cdeventsources", Logger: logger, Concurrency: workers,
	})
	r.sinks = newSinks(newObjects(ctx, disco, dyn, impl.EnqueueKey))

	if _, err := sources.AddEventHandler(controller.HandleAll(impl.Enqueue)); err != nil {
		logger.Fatalw("CDEventSources cannot be watched", "error", err)
	}
	return impl
}

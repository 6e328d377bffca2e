// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection/clients/dynamicclient"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/system"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

// workers is more than Knative's two, because the first read of a sink waits for the
// API server.
const workers = 4

// Options configure the controller.
type Options struct {
	Client *client.Clientset
	// Sources is an informer that the caller starts.
	Sources cache.SharedIndexInformer
	// Deliveries may be nil.
	Deliveries  Deliveries
	Credentials Credentials
	// Schemes are those that the URIs of sinks may have.
	Schemes  transport.Schemes
	Settings Settings
	// Leader may be nil, which means an election of its own.
	Leader Leader
}

// NewController creates the controller for CDEventSources.
func NewController(ctx context.Context, o Options) *controller.Impl {
	return newController(ctx, o, kubeclient.Get(ctx).Discovery(), dynamicclient.Get(ctx))
}

func newController(
	ctx context.Context, o Options, disco discovery.ServerResourcesInterface, dyn dynamic.Interface,
) *controller.Impl {
	logger := logging.FromContext(ctx)
	r := &Reconciler{
		client:      o.Client,
		lister:      client.NewSourceLister(o.Sources.GetIndexer()),
		deliveries:  o.Deliveries,
		credentials: o.Credentials,
		settings:    o.Settings,
		system:      system.Namespace(),
		now:         time.Now,
		leader:      o.Leader,
	}
	r.PromoteFunc = r.promote
	impl := controller.NewContext(ctx, r, controller.ControllerOptions{
		WorkQueueName: "cdeventsources", Logger: logger, Concurrency: workers,
	})
	r.sinks = newSinks(newObjects(ctx, disco, dyn, impl.EnqueueKey), o.Schemes)

	if _, err := o.Sources.AddEventHandler(controller.HandleAll(impl.Enqueue)); err != nil {
		logger.Fatalw("CDEventSources cannot be watched", "error", err)
	}
	return impl
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"

	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/reconciler/environment"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/pods"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
)

// process is what emitting, watching, measuring and gating share.
type process struct {
	config *rest.Config
	// stopping ends when the process must stop; end stops it, with a reason.
	stopping context.Context //nolint:containedctx // the life of the process, not of one call
	end      context.CancelCauseFunc
	// acknowledged is closed when sending has ended and all acknowledgements are written.
	acknowledged chan struct{}
	running      sync.WaitGroup

	// registry holds the watched kinds; it knows what this process leads for.
	registry  *observer.Registry
	clientset *client.Clientset
	metadata  metadata.Interface
	presence  *observer.Presence
	pods      *pods.Informer
}

func newProcess(stopping context.Context, end context.CancelCauseFunc, config *rest.Config) *process {
	return &process{
		config: config, stopping: stopping, end: end, acknowledged: make(chan struct{}), registry: observer.NewRegistry(),
	}
}

// connect makes the shared clients and informers.
func (p *process) connect(ctx context.Context) {
	var err error
	p.clientset, err = client.New(p.config)
	must(ctx, "making a client for knative-cdevents.dev", err)
	p.metadata, err = metadata.NewForConfig(p.config)
	must(ctx, "making a client for metadata", err)
	must(ctx, "checking the version of Knative Serving", service.CheckVersion(ctx, p.metadata))
	p.presence, err = observer.NewPresence(p.metadata, environment.Label)
	must(ctx, "watching which kinds exist", err)
	p.pods, err = pods.New(kubeclient.Get(ctx), p.metadata)
	must(ctx, "watching pods", err)
}

// must ends a process that cannot start. There is no caller yet to return an error to.
func must(ctx context.Context, doing string, err error) {
	if err != nil {
		logging.FromContext(ctx).Fatalw("The controller cannot start: "+doing, "error", err)
	}
}

// wait returns when everything has ended.
func (p *process) wait() { p.running.Wait() }

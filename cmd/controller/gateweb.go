package main

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/web"
)

// Where verdicts are served, and where a certificate is mounted if there is one:
// config/500-controller.yaml has both.
const (
	gatesAddress     = ":8081"
	gatesCertificate = "/etc/gates-tls"
)

// Whoever asks for verdicts makes the API server review tokens. That has budgets of its
// own, so that events do not wait for it, nor known tokens for those that never were let in.
const (
	reviewsQPS     = 20
	reviewsBurst   = 40
	strangersQPS   = 10
	strangersBurst = 20
)

// serveGates answers those who ask for verdicts over HTTP. Every replica does: what it
// tells comes from caches.
func (p *process) serveGates(ctx context.Context) {
	known, strangers := p.reviews(ctx, reviewsQPS, reviewsBurst), p.reviews(ctx, strangersQPS, strangersBurst)
	informer := p.gates.Load().Informer()
	lister := client.NewGateLister(informer.GetIndexer())
	handler := (&web.Handler{
		Gates: func(key types.NamespacedName) (*v1alpha1.CanaryGate, error) {
			return lister.Namespaced(key.Namespace).Get(key.Name)
		},
		Service: p.view.Split, Guard: web.NewAccess(known, strangers), Ready: informer.HasSynced, Warn: logging.FromContext(ctx).Warnw,
	}).Init()
	p.running.Go(func() {
		// Events go their way without it.
		if err := web.Serve(ctx, gatesAddress, gatesCertificate, handler); err != nil {
			logging.FromContext(ctx).Errorw("This replica cannot serve verdicts of gates over HTTP", "error", err)
		}
	})
}

// reviews returns a client for reviews of tokens with a budget of its own.
func (p *process) reviews(ctx context.Context, qps float32, burst int) kubernetes.Interface {
	config := rest.CopyConfig(p.config)
	config.QPS, config.Burst, config.RateLimiter = qps, burst, nil
	kube, err := kubernetes.NewForConfig(config)
	must(ctx, "making a client for reviews of tokens", err)
	return kube
}

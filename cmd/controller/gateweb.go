// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/system"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/reconciler/authserver"
	"github.com/knative-cdevents/knative-cdevents/reconciler/cluster"
	clusterweb "github.com/knative-cdevents/knative-cdevents/reconciler/cluster/web"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/gatehttp"
	"github.com/knative-cdevents/knative-cdevents/reconciler/servicestate"
)

// Where verdicts are served, and where a certificate is mounted if there is one:
// config/500-controller.yaml has both.
const (
	gatesAddress     = ":8081"
	gatesCertificate = "/etc/gates-tls"
)

// Each request for a verdict costs a token review. These have budgets of their own, so
// that events do not wait for them, known clients do not wait for unknown ones, and verdicts
// do not wait for pods that read their plan.
const (
	reviewsQPS   = 20
	reviewsBurst = 40
	unknownQPS   = 10
	unknownBurst = 20
	// All pods that wait for a plan, about 900, send the next request at the same moment when it changes. The token of
	// each is reviewed again once a minute.
	membersQPS   = 50
	membersBurst = 200
	// A member registers once and leaves once, each with a read and a write. All pods of a Service do so at the same
	// moment.
	registerQPS   = 100
	registerBurst = 400
)

// serve serves verdicts and placements over HTTP. Every replica does, from its caches.
func (g *gating) serve(ctx context.Context, v *servicestate.View, w *watching) {
	known, unknown := g.reviews(ctx, reviewsQPS, reviewsBurst), g.reviews(ctx, unknownQPS, unknownBurst)
	logger := logging.FromContext(ctx)
	handler := (&gatehttp.Handler{
		Gates: g.gates, Services: v, Guard: gatehttp.NewAccess(known, unknown), Logger: logger,
	}).Init()
	members, newcomers := g.reviews(ctx, membersQPS, membersBurst), g.reviews(ctx, unknownQPS, unknownBurst)
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	access := clusterweb.NewAccess(members, newcomers, g.pods)
	mux.Handle(clusterweb.Path, &clusterweb.Handler{
		Plans: w.plans, Guard: access, Logger: logger, Stopping: ctx.Done(),
	})
	mux.Handle(clusterweb.MemberPath, &clusterweb.Registration{
		Guard: access, Logger: logger,
		Registrar: &cluster.Registrar{
			Client: g.registrations(ctx).ShardPlacements(system.Namespace()), Living: g.pods, Now: time.Now,
		},
	})
	g.running.Go(func() {
		// Sending events does not depend on it.
		if err := authserver.Serve(ctx, gatesAddress, gatesCertificate, mux); err != nil {
			logger.Errorw("This replica cannot serve verdicts of gates and placements over HTTP", "error", err)
		}
	})
}

// reviews returns a client for reviews of tokens with a budget of its own.
func (g *gating) reviews(ctx context.Context, qps float32, burst int) kubernetes.Interface {
	kube, err := kubernetes.NewForConfig(g.budget(qps, burst))
	must(ctx, "making a client for reviews of tokens", err)
	return kube
}

// registrations returns a client for members that register and leave, with a budget of its own.
func (g *gating) registrations(ctx context.Context) *client.Clientset {
	own, err := client.New(g.budget(registerQPS, registerBurst))
	must(ctx, "making a client for members that register", err)
	return own
}

func (g *gating) budget(qps float32, burst int) *rest.Config {
	config := rest.CopyConfig(g.config)
	config.QPS, config.Burst, config.RateLimiter = qps, burst, nil
	return config
}

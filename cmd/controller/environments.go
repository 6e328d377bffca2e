// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/environment"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// watchEnvironments watches environments. It takes part in no election: the watch of Services elects, and says with
// promoted and demoted what this process leads for. So it is not among the controllers of sharedmain, which must elect.
func (c *controllers) watchEnvironments(ctx context.Context) {
	e := c.emitting
	found, err := discovery.NewDiscoveryClientForConfig(c.config)
	must(ctx, "making a client for discovery", err)
	objects, err := dynamic.NewForConfig(c.config)
	must(ctx, "making a client for environments", err)
	impl, environments := environment.NewController(ctx, environment.Options{
		Discovery: found, Dynamic: objects, Metadata: c.metadata, Presence: c.presence, Carried: cdevents.CarriedAnnotations(),
		Kinds: func() []schema.GroupKind { return e.settings.Current().EnvironmentKinds },
		Rules: func() lifecycle.Rules { return e.settings.Current().Rules() },
		Since: e.since, Leads: c.isLeaderFor, Now: time.Now,
		Mark: func(ctx context.Context, kind string, r environment.Readability) error {
			status := metav1.ConditionFalse
			if r == environment.Readable {
				status = metav1.ConditionTrue
			}
			return e.baselines.SetCondition(ctx, kind, metav1.Condition{
				Type: environment.ConditionReadable, Status: status,
				Reason: string(r), Message: r.Message(),
			})
		},
		Observer: observer.Options{Ledger: e.ledger, Merged: e.metrics.Merged, Now: time.Now, Stopping: ctx.Done(), Reverted: e.reverted},
	})
	must(ctx, "registering the metrics of environments", prometheus.Register(environment.Metrics(environments.Readings)))
	c.environments.Store(environments)
	c.running.Go(func() {
		if !cache.WaitForCacheSync(ctx.Done(), e.known.Load, e.namespaces.HasSynced) {
			return
		}
		if err := impl.Run(ctx); err != nil {
			logging.FromContext(ctx).Errorw("The watch of environments ended", "error", err)
		}
	})
}

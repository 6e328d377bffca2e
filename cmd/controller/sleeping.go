// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	"knative.dev/pkg/system"

	"github.com/knative-cdevents/knative-cdevents/reconciler/awake"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
)

// sleeper returns what puts this controller to sleep in the serverless mode. One of the replicas decides: the one that
// would lead for a Service of this name.
func (c *controllers) sleeper(ctx context.Context) *awake.Sleeper {
	kube, ours, services := kubeclient.Get(ctx), system.Namespace(), c.watching.services
	rule, err := awake.NewRule(c.config, ours, c.emitting.settings.EnvironmentKinds)
	must(ctx, "making clients to look for what is to be measured", err)
	return &awake.Sleeper{
		Rule: rule, Deployment: &awake.Deployment{Client: kube.AppsV1().Deployments(ours), Now: time.Now},
		Stateful: func() ([]types.NamespacedName, bool) {
			declared := services.Declared()
			maps.DeleteFunc(declared, func(_ types.NamespacedName, d service.Declared) bool { return !d.Stateful })
			return slices.Collect(maps.Keys(declared)), services.Active()
		},
		Leads:  func() bool { return c.registry.IsLeaderFor(types.NamespacedName{Namespace: ours, Name: component}) },
		Leases: kube.CoordinationV1().Leases(ours),
		Quiet:  func() time.Duration { return c.measuring.settings.Current().SleepAfter },
	}
}

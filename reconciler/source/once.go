// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/controller"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
)

// Once updates the status of sources when it is asked to. It watches nothing.
type Once struct {
	// Options are those of the controller. Sources, Deliveries, Settings and Leader are not used.
	Options
	// System is the namespace whose sources may select other namespaces.
	System string
	// sinks read what sources refer to.
	sinks *sinks
}

// NewOnce returns an updater of statuses.
func NewOnce(ctx context.Context, o Options, system string, disco discovery.ServerResourcesInterface,
	dyn dynamic.Interface,
) *Once {
	return &Once{Options: o, System: system, sinks: newSinks(newObjects(ctx, disco, dyn, nil), o.Schemes)}
}

var errConflict = errors.New("somebody else has changed it meanwhile; try again")

// Update writes the status of a source, if it is to change. All are the sources of its namespace. Settings are those
// of the operator now. Without deliveries, the status keeps what it says about them.
func (o *Once) Update(ctx context.Context, s *v1alpha1.CDEventSource, all []*v1alpha1.CDEventSource, now Settings,
	deliveries Deliveries,
) error {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, client.SourceIndexers())
	for _, n := range all {
		if err := indexer.Add(n); err != nil {
			return fmt.Errorf("keeping CDEventSource %s/%s: %w", n.Namespace, n.Name, err)
		}
	}
	r := &Reconciler{
		client: o.Client, lister: client.NewSourceLister(indexer), sinks: o.sinks, deliveries: deliveries,
		credentials: o.Credentials, settings: now, system: o.System, now: time.Now, leader: always{},
	}
	err := r.Reconcile(ctx, s.Namespace+"/"+s.Name)
	switch again, after := controller.IsRequeueKey(err); {
	case again && after < interval:
		return errConflict
	case again:
		return nil // a controller looks again then
	}
	return err
}

// always leads for all sources.
type always struct{}

// IsLeaderFor implements Leader.
func (always) IsLeaderFor(types.NamespacedName) bool { return true }

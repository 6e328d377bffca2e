// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/customrun"
)

// recordGracePeriod protects a record that its owner's status does not mention: a new
// run writes its record first.
const recordGracePeriod = time.Minute

// collectRecords deletes the records of completed runs and of deleted objects.
func (g *Gate) collectRecords(ctx context.Context) {
	resyncs := 0
	g.everyResync(ctx, func() {
		err := g.tend(ctx, resyncs%pruneEvery == 0)
		if resyncs++; err != nil && ctx.Err() == nil {
			logging.FromContext(ctx).Warnw("Could not delete all records of finished runs; retrying", "error", err)
		}
	})
}

// tend deletes the records that are not needed. It prunes what is kept if that is due, or if there is more of it than
// at the last resync.
func (g *Gate) tend(ctx context.Context, due bool) error {
	err := g.collect(ctx)
	if more := g.kept.Swap(false); !more && !due {
		return err
	}
	pruned := g.prune(ctx)
	if pruned != nil {
		g.kept.Store(true)
	}
	return errors.Join(err, pruned)
}

func (g *Gate) collect(ctx context.Context) error {
	all, err := g.Client.CanaryGateRunNames(ctx, g.Namespace, "!"+v1alpha1.FinishedRunLabel)
	if err != nil {
		return err //nolint:wrapcheck // the error is complete
	}
	for i := range all {
		m := &all[i]
		o, service := owner(v1alpha1.RunOwner(m)), m.Annotations[v1alpha1.RunServiceAnnotation]
		if o.recordName() != m.Name ||
			!g.Leader.IsLeaderFor(types.NamespacedName{Namespace: o.Namespace, Name: service}) {
			continue // owned by another controller
		}
		needed, err := g.needed(ctx, o, m)
		if err != nil {
			return err
		}
		if needed {
			continue
		}
		g.records.remember(m.Name, nil)
		if err := g.keepLeft(ctx, m.Name); err != nil {
			return err
		}
		if err := g.records.remove(ctx, m.Name, m.UID, m.ResourceVersion); err != nil {
			return err
		}
	}
	return nil
}

// needed reports whether a run needs a record.
func (g *Gate) needed(ctx context.Context, o owner, m *metav1.PartialObjectMetadata) (bool, error) {
	underWay, found, err := g.underWay(ctx, o)
	if err != nil || !found || underWay {
		return underWay, err
	}
	// The status may not mention a new run yet.
	return g.Clock.Now().Sub(m.CreationTimestamp.Time) < recordGracePeriod, nil
}

// underWay reports whether the owner has a run in progress, and whether it still exists.
// Only the API server can say that it does not.
func (g *Gate) underWay(ctx context.Context, o owner) (underWay, found bool, err error) {
	switch o.Kind {
	case ofGate:
		gate, err := g.find(ctx, o.Namespace, o.Name)
		if err != nil || gate == nil || gate.UID != o.UID {
			return false, false, err
		}
		return gate.Status.Run.InProgress(), true, nil
	case ofCustomRun:
		u, err := g.Runs.Resource(customrun.Resource).Namespace(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return false, false, nil
		case apierrors.IsForbidden(err):
			return true, true, nil // unknown, so keep the record
		case err != nil:
			return false, false, err //nolint:wrapcheck // the error is complete
		case u.GetUID() != o.UID:
			return false, false, nil
		}
		r, err := customrun.Read(u)
		return err == nil && !r.Done(), true, nil
	}
	return false, false, nil
}

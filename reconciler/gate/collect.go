// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/customrun"
)

// recordGracePeriod protects the record of a new run that its owner's status does not mention, as the record is written
// first; and that of a completed run until the journal must have the verdict.
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
		underWay, found, err := g.underWay(ctx, o)
		if err != nil {
			return err
		}
		if underWay || !found && g.caches(o) {
			continue
		}
		if err := g.dismiss(ctx, o, m.Name, found); err != nil {
			return err
		}
	}
	return nil
}

// dismiss deletes the record of a run that is not under way, unless that is too early. found says whether its owner
// exists.
func (g *Gate) dismiss(ctx context.Context, o owner, name string, found bool) error {
	record, err := g.records.client.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading CanaryGateRun %s: %w", name, err)
	}
	run, now := record.Status.Run, g.Clock.Now()
	if found && run.InProgress() && now.Sub(run.StartTime.Time) < recordGracePeriod {
		return nil // the status may not mention a new run yet
	}
	if !found {
		if record, err = g.cancel(ctx, record); apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return nil // another writer was first
		} else if err != nil {
			return err
		}
		run = record.Status.Run
	}
	if err := g.keep(ctx, record); err != nil {
		return err
	}
	if at, told := g.reporter.tell(o.Namespace, run); !told || now.Sub(at) < recordGracePeriod {
		return nil // if this process dies, the next one reports the verdict, no matter how much later
	}
	g.records.remember(name, nil)
	if err := g.records.remove(ctx, name, record.UID, record.ResourceVersion); err != nil {
		return err
	}
	if run != nil {
		g.records.gone(run)
	}
	return nil
}

// caches reports whether the cache has an owner of which the API server says that it does not exist. Its kind may not
// be served for the moment; if it was deleted, the cache will know.
func (g *Gate) caches(o owner) bool {
	store := g.gates.GetStore()
	if o.Kind == ofCustomRun {
		store = g.runs.informer().GetStore()
	}
	obj, ok, err := store.GetByKey(o.Namespace + "/" + o.Name)
	is, isObject := obj.(metav1.Object)
	return err == nil && ok && isObject && is.GetUID() == o.UID
}

// deletedEarly is the message of a run whose owner, by kind and name, was deleted.
const deletedEarly = "%s %q was deleted before a verdict was reached"

// cancel ends the run of a record whose owner was deleted, as nothing else would.
func (g *Gate) cancel(ctx context.Context, record *v1alpha1.CanaryGateRun) (*v1alpha1.CanaryGateRun, error) {
	if !record.Status.Run.InProgress() {
		return record, nil
	}
	of := record.Spec
	run, _ := g.resume(ctx, of.Namespace, record.Status.Run) // a run that cannot continue ends as well
	run.End(g.Clock.Now(), verdict.Inconclusive, fmt.Sprintf(deletedEarly, of.Kind, of.Name), Cancelled)
	ended := record.DeepCopy()
	ended.Status.Run = run.GateRun
	ended, err := g.records.client.Update(ctx, ended, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("ending the run in CanaryGateRun %s: %w", record.Name, err)
	}
	return ended, nil
}

// underWay reports whether the owner has a run in progress, and whether it still exists.
// Only the API server can say that it does not.
func (g *Gate) underWay(ctx context.Context, o owner) (underWay, found bool, err error) {
	switch o.Kind {
	case ofGate:
		gate, err := g.read(ctx, o.Namespace, o.Name)
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

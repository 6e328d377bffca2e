// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/cluster"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
)

// Traffic knows the splits of Services.
type Traffic interface {
	// Split returns the effective split of a Service, or none while it is not known.
	Split(service types.NamespacedName) lifecycle.Split
}

// Loads knows how many requests each shard of a Service handled. That decides which shards move.
type Loads interface {
	Loads(service types.NamespacedName) map[attribution.ShardKey]float64
}

// Declarations are the Services that declare a cluster.
type Declarations interface {
	Leader
	// Active is false until they are known.
	Active() bool
	Declared() map[types.NamespacedName]service.Declared
}

// PlacerOptions configure a Placer.
type PlacerOptions struct {
	// Client writes in the controller's namespace.
	Client   *client.Placements
	Traffic  Traffic
	Loads    Loads
	Services Declarations
	// Plans lists the stored plans, from a cache.
	Plans   Plans
	Metrics *Metrics
	// Living knows which pods of a Service there are, for members that register.
	Living Living
	Now    func() time.Time
}

// Plans are the stored plans.
type Plans interface {
	Synced() bool
	// Get returns the plan of a Service, or nil.
	Get(service types.UID) *v1alpha1.ShardPlacement
	All() []*v1alpha1.ShardPlacement
}

// Placer makes the plans of the clusters that this process leads.
type Placer struct {
	PlacerOptions

	mu sync.Mutex
	// latest are the plans as this process read or wrote them last, by UID of the Service.
	latest map[types.UID]latest
}

// latest is a plan that this process knows.
type latest struct {
	plan *v1alpha1.ShardPlacement
	// issued: this process has given a plan of the Service its version. The first one always gets a new version, even
	// with the same content: clients ignore lower ones, and a restored backup brings one back.
	issued bool
}

// NewPlacer returns a Placer.
func NewPlacer(o PlacerOptions) *Placer {
	return &Placer{PlacerOptions: o, latest: map[types.UID]latest{}}
}

// nameOf a Service's plan. A Service that is created anew has another one.
func nameOf(service types.UID) string { return "service-" + string(service) }

// Place makes the plan of a cluster from where its shards are, and stores it if it differs from the last one. The
// plan of a cluster that does not ask for one any more is deleted. Place returns how far the cluster follows its
// plan; nil if that is unknown.
func (p *Placer) Place(ctx context.Context, key types.NamespacedName, l cluster.Layout) (*cluster.Placement, error) {
	if l.Declared.Placement == "" {
		p.Metrics.forget(key)
		if stored := p.Plans.Get(l.UID); stored != nil {
			if err := p.remove(ctx, stored); err != nil {
				return nil, err
			}
		}
		return &cluster.Placement{}, nil
	}
	shares := p.Traffic.Split(key)
	if len(shares) == 0 {
		return nil, p.Look(ctx, key, l.UID) // unknown, which is not an error
	}
	before := p.known(l.UID).plan
	last, err := p.last(ctx, l.UID)
	if err != nil {
		return nil, err
	}
	next, err := cluster.Plan(l, shares, p.Loads.Loads(key), last)
	if err != nil {
		return nil, errors.Join(err, p.Look(ctx, key, l.UID))
	}
	now := p.Now()
	if last != nil {
		if next.Peers, err = peers(ctx, p.Living, key, last.Status.Peers, now); err != nil {
			return nil, err
		}
	}
	progress := p.Metrics.Update(key, l, next, last != nil, now)
	if last != nil && cluster.SamePlan(last.Status, next) && p.known(l.UID).issued {
		return progress, nil
	}
	above := int64(0)
	if last != nil {
		above = last.Status.Version
	} else if before != nil { // it was deleted, and clients still know its version
		above = before.Status.Version
	}
	issue(&next, above, now)
	if err := p.write(ctx, key, l.UID, last, next); err != nil {
		return nil, err
	}
	return progress, nil
}

// Look implements Planner. Members take over what a pod had that is gone, whatever keeps another one from answering.
func (p *Placer) Look(ctx context.Context, key types.NamespacedName, service types.UID) error {
	if cached := p.Plans.Get(service); cached == nil || len(cached.Status.Peers) == 0 {
		return nil
	}
	last, err := p.last(ctx, service)
	if err != nil || last == nil {
		return err
	}
	next, now := *last.Status.DeepCopy(), p.Now()
	if next.Peers, err = peers(ctx, p.Living, key, last.Status.Peers, now); err != nil {
		return err
	}
	if cluster.SamePlan(last.Status, next) {
		return nil
	}
	issue(&next, last.Status.Version, now)
	return p.write(ctx, key, service, last, next)
}

// issue gives a plan that changed its time, and a version above that of the last one.
func issue(next *v1alpha1.ShardPlacementStatus, above int64, now time.Time) {
	next.Version, next.IssuedAt = max(now.UnixMilli(), above+1), metav1.NewTime(now.Truncate(time.Second))
}

// last returns the plan of a Service, or nil.
func (p *Placer) last(ctx context.Context, service types.UID) (*v1alpha1.ShardPlacement, error) {
	known := p.known(service)
	// While another process had the lead, it may have written the plan anew; and anybody may have deleted it.
	if cached := p.Plans.Get(service); known.plan != nil && cached != nil &&
		cached.ResourceVersion == known.plan.ResourceVersion {
		return known.plan, nil
	}
	stored, err := p.Client.Get(ctx, nameOf(service), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		p.remember(service, latest{})
		return nil, nil //nolint:nilnil // its absence is not an error
	}
	if err != nil {
		return nil, fmt.Errorf("reading ShardPlacement %s: %w", nameOf(service), err)
	}
	// A lower version comes from a restored backup.
	p.remember(service, latest{stored, known.issued && stored.Status.Version >= known.plan.Status.Version})
	return stored, nil
}

func (p *Placer) write(
	ctx context.Context, key types.NamespacedName, service types.UID, last *v1alpha1.ShardPlacement,
	next v1alpha1.ShardPlacementStatus,
) error {
	object := &v1alpha1.ShardPlacement{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.PlacementKind.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: nameOf(service)},
		Spec:       v1alpha1.ShardPlacementSpec{Namespace: key.Namespace, Service: key.Name, UID: service},
		Status:     next,
	}
	var err error
	if last == nil {
		object, err = p.Client.Create(ctx, object, metav1.CreateOptions{})
	} else {
		object.ObjectMeta = *last.ObjectMeta.DeepCopy()
		object, err = p.Client.Update(ctx, object, metav1.UpdateOptions{})
	}
	if err != nil {
		// Another writer may have been first, or a backup was restored: what is stored then has to be issued anew.
		p.remember(service, latest{})
		return fmt.Errorf("writing ShardPlacement %s: %w", nameOf(service), err)
	}
	p.remember(service, latest{object, true})
	return nil
}

func (p *Placer) remember(service types.UID, w latest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.plan == nil {
		delete(p.latest, service)
		return
	}
	w.plan.ManagedFields = nil
	p.latest[service] = w
}

func (p *Placer) known(service types.UID) latest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.latest[service]
}

// remove deletes a plan, unless it was written since.
func (p *Placer) remove(ctx context.Context, plan *v1alpha1.ShardPlacement) error {
	p.remember(plan.Spec.UID, latest{})
	err := p.Client.Delete(ctx, plan.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &plan.UID, ResourceVersion: &plan.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting ShardPlacement %s: %w", plan.Name, err)
	}
	return nil
}

// collectEvery is how often plans without a cluster are deleted.
const collectEvery = time.Minute

// Run deletes the plans of Services that are gone, or that declare no cluster any more, until the context ends.
func (p *Placer) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := p.collect(ctx); err != nil && ctx.Err() == nil {
			logging.FromContext(ctx).Warnw("Could not delete all plans of clusters that are gone; retrying", "error", err)
		}
	}, collectEvery)
}

func keyOf(plan *v1alpha1.ShardPlacement) types.NamespacedName {
	return types.NamespacedName{Namespace: plan.Spec.Namespace, Name: plan.Spec.Service}
}

// collect also forgets what it knows of clusters that another process leads.
func (p *Placer) collect(ctx context.Context) error {
	p.mu.Lock()
	maps.DeleteFunc(p.latest, func(_ types.UID, w latest) bool { return !p.Services.IsLeaderFor(keyOf(w.plan)) })
	p.mu.Unlock()
	p.Metrics.keep()
	if !p.Services.Active() || !p.Plans.Synced() {
		return nil
	}
	services := p.Services.Declared()
	var failed []error
	for _, plan := range p.Plans.All() {
		key := keyOf(plan)
		if d := services[key]; !p.Services.IsLeaderFor(key) || d.Stateful && d.UID == plan.Spec.UID {
			continue
		}
		p.Metrics.forget(key)
		failed = append(failed, p.remove(ctx, plan))
	}
	return errors.Join(failed...)
}

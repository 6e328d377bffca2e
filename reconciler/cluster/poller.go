// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"net/netip"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/cluster"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/pods"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
)

// How often a cluster is polled.
const (
	whileMoving  = 5 * time.Second
	whileSettled = 15 * time.Second
	// afterChange delays the poll after a change, because one change comes in several steps.
	afterChange = 300 * time.Millisecond
)

// pollers is how many clusters are polled in parallel.
const pollers = 4

// pollTimeout limits one poll of all pods of a cluster.
const pollTimeout = 15 * time.Second

// API reads the management API of a pod. Management implements it.
type API interface {
	Members(ctx context.Context, at netip.AddrPort) (cluster.Members, error)
	Shards(ctx context.Context, at netip.AddrPort, entityType string) ([]string, error)
	Events(ctx context.Context, at netip.AddrPort, changed func(event string)) error
}

// Pods lists pods and verifies their owners. pods.Informer implements it.
type Pods interface {
	Synced() bool
	Of(service types.NamespacedName) []*pods.Pod
	Owned(ctx context.Context, pod *pods.Pod) error
}

// Leader says what this process leads for.
type Leader interface {
	IsLeaderFor(service types.NamespacedName) bool
}

// Services are the watched Knative Services. service.Watch implements it.
type Services interface {
	Leader
	// Declared lists the Services that declare a cluster, or try to.
	Declared() map[types.NamespacedName]service.Declared
	// Sequence returns the number of the newest transition of a Service.
	Sequence(key types.NamespacedName, service types.UID) int64
	// Update takes each observation of a cluster as a part of its Service.
	Update(key types.NamespacedName, observed observer.Part)
}

// View also takes each observation.
type View interface {
	UpdateCluster(service types.NamespacedName, observed observer.Part)
}

// Planner takes where all shards are, if all members answered and form one cluster. It returns how far the cluster
// follows its plan, or nil if that is unknown. Placer implements it.
type Planner interface {
	Place(ctx context.Context, service types.NamespacedName, l cluster.Layout) (*cluster.Placement, error)
	// Look stores what has become of the pods of members that registered, where no plan can be made.
	Look(ctx context.Context, service types.NamespacedName, uid types.UID) error
}

// Options configure a Poller.
type Options struct {
	Pods     Pods
	API      API
	Services Services
	View     View
	// Planner may be nil.
	Planner Planner
	Metrics Counters
	Now     func() time.Time
}

// Poller polls the clusters of the Services that this process leads.
type Poller struct {
	Options
	queue   workqueue.TypedDelayingInterface[types.NamespacedName]
	version atomic.Uint64

	mu       sync.Mutex
	clusters map[types.NamespacedName]*polled
}

// polled is the state of one polled cluster. Fields that Poller.mu does not guard belong
// to one poller at a time: the queue never hands out a key twice.
type polled struct {
	uid     types.UID
	tracker cluster.Tracker
	stream  stream

	// base, state and lacking come from the last poll, as does version, that of the observation. began is when that poll
	// did.
	// Poller.mu guards them.
	base    int64
	state   lifecycle.ClusterState
	version string
	// lacking is how many of the pods have no sidecar, and declare one.
	lacking int
	began   time.Time
	// ended is done when this process stops polling the cluster.
	ended context.Context //nolint:containedctx // it ends when this process loses the lead
	end   context.CancelFunc
}

// NewPoller returns a Poller. The caller runs it with Run, and calls Changed whenever a
// pod of a Service changes.
func NewPoller(o Options) *Poller {
	return &Poller{
		Options: o, clusters: map[types.NamespacedName]*polled{},
		queue: workqueue.NewTypedDelayingQueue[types.NamespacedName](),
	}
}

var _ observer.Watch = (*Poller)(nil)

// Name implements observer.Watch.
func (*Poller) Name() string { return "Clusters" }

// Resources implements observer.Watch: clusters are polled, and found by the pods of Services.
func (*Poller) Resources() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{corev1.SchemeGroupVersion.WithResource("pods")}
}

// Changed schedules an early poll of a Service's cluster.
func (p *Poller) Changed(service types.NamespacedName) {
	p.mu.Lock()
	_, known := p.clusters[service]
	p.mu.Unlock()
	if known {
		p.queue.AddAfter(service, afterChange)
	}
}

// Run implements observer.Watch: it polls clusters until the context ends.
func (p *Poller) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	defer p.queue.ShutDown()
	for range pollers {
		running.Go(func() {
			for {
				key, over := p.queue.Get()
				if over {
					return
				}
				if again := p.pollSafely(ctx, key); again > 0 {
					p.queue.AddAfter(key, again)
				}
				p.queue.Done(key)
			}
		})
	}
	every := time.NewTicker(whileMoving)
	defer every.Stop()
	for {
		p.sweep(ctx)
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// sweep starts polling the clusters that this process now leads, and stops polling the
// others.
func (p *Poller) sweep(ctx context.Context) {
	if !p.Pods.Synced() {
		return
	}
	services := p.Services.Declared()
	p.forget(func(key types.NamespacedName) bool {
		s, ok := services[key]
		return !ok || !s.Stateful || s.UID != p.clusters[key].uid || !p.Services.IsLeaderFor(key)
	})
	var due []types.NamespacedName
	wrong := 0
	p.mu.Lock()
	for key, s := range services {
		if !p.Services.IsLeaderFor(key) {
			continue
		}
		if s.Wrong {
			wrong++
		}
		c := p.clusters[key]
		if c == nil && s.Stateful {
			c = &polled{uid: s.UID, state: lifecycle.ClusterUnknown}
			c.ended, c.end = context.WithCancel(ctx)
			p.clusters[key] = c
			due = append(due, key)
			continue
		}
		// A transition since the last poll makes that poll outdated.
		if c != nil && p.Services.Sequence(key, c.uid) != c.base {
			due = append(due, key)
		}
	}
	p.mu.Unlock()
	p.Metrics.Misdeclared(wrong)
	for _, key := range due {
		p.queue.Add(key)
	}
}

// forget stops polling the clusters that match. It also withdraws their observations, so
// that a new Service of the same name does not inherit them.
func (p *Poller) forget(over func(types.NamespacedName) bool) {
	var gone []types.NamespacedName
	p.mu.Lock()
	for key, c := range p.clusters {
		if over(key) {
			c.end()
			delete(p.clusters, key)
			gone = append(gone, key)
		}
	}
	p.mu.Unlock()
	for _, key := range gone {
		p.report(key, observer.Part{Name: lifecycle.ObjectCluster, Version: p.next(), Volatile: true})
	}
}

// next returns the next version of an observation.
func (p *Poller) next() string { return strconv.FormatUint(p.version.Add(1), 10) }

// States counts the polled clusters by state.
func (p *Poller) States() map[lifecycle.ClusterState]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[lifecycle.ClusterState]int{}
	for _, c := range p.clusters {
		out[c.state]++
	}
	return out
}

// LackSidecar returns how many pods of the polled clusters declare a sidecar and have none.
func (p *Poller) LackSidecar() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.clusters {
		n += c.lacking
	}
	return n
}

// Sidecar returns the image of the sidecar that a pod of a Revision has; empty if none has one, or no pod is left.
func (p *Poller) Sidecar(service types.NamespacedName, revision types.UID) string {
	for _, pod := range p.Pods.Of(service) {
		if pod.RevisionUID == revision && pod.Sidecar != "" {
			return pod.Sidecar
		}
	}
	return ""
}

// Polled returns when the last poll of a Service's cluster began, and the version of what was observed last. A poll
// that failed counts, too: what waits for one must not wait for ever.
func (p *Poller) Polled(service types.NamespacedName) (began time.Time, version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.clusters[service]; c != nil {
		return c.began, c.version
	}
	return time.Time{}, ""
}

// afterPanic is when a cluster is polled again whose poll panicked.
const afterPanic = time.Minute

// pollSafely confines a panic, which is a bug, to its cluster. What pods report must not end the process.
func (p *Poller) pollSafely(ctx context.Context, key types.NamespacedName) (again time.Duration) {
	defer func() {
		if panicked := recover(); panicked != nil {
			logging.FromContext(ctx).Errorw("Polling a cluster panicked, which is a bug: please report it", "service", key,
				"panic", panicked, "stack", string(debug.Stack()))
			p.Metrics.Polled("failed")
			again = afterPanic
		}
	}()
	return p.poll(ctx, key)
}

// poll polls one cluster and returns the delay until the next poll, or 0 for never.
func (p *Poller) poll(ctx context.Context, key types.NamespacedName) time.Duration {
	p.mu.Lock()
	c := p.clusters[key]
	p.mu.Unlock()
	if c == nil || !p.Services.IsLeaderFor(key) {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	stop := context.AfterFunc(c.ended, cancel) //nolint:contextcheck // ended ends the poll when this process loses the lead
	defer stop()

	began := p.Now()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		c.began = began
	}()
	base := p.Services.Sequence(key, c.uid) // before the first request
	pods, refused, err := p.verified(ctx, key, c.uid)
	if err != nil {
		if ctx.Err() == nil {
			logging.FromContext(ctx).Warnw("Failed to verify the pods of a cluster; retrying", "service", key, "error", err)
		}
		p.Metrics.Polled("failed")
		return whileMoving
	}
	answers := p.probe(ctx, pods)
	o := cluster.Observe(pods, answers, refused)
	if c.ended.Err() != nil {
		return 0
	}
	state := c.tracker.Next(o, p.Now())
	state.Base = base
	p.Metrics.Polled(o.Outcome())
	version := p.next()
	p.mu.Lock()
	c.base, c.state, c.version, c.lacking = base, state.State, version, o.LackSidecar()
	p.mu.Unlock()
	if p.Planner != nil && o.Whole() {
		placement, err := p.Planner.Place(ctx, key, cluster.LayoutOf(c.uid, pods, answers))
		if err != nil && ctx.Err() == nil {
			logging.FromContext(ctx).Warnw("Could not plan the placement of a cluster; retrying with the next poll", "service",
				key, "error", err)
		}
		placement.AddTo(&state)
	} else if p.Planner != nil {
		if err := p.Planner.Look(ctx, key, c.uid); err != nil && ctx.Err() == nil {
			logging.FromContext(ctx).Warnw("Could not store what has become of the members of a cluster; retrying with the next poll",
				"service", key, "error", err)
		}
	}
	p.report(key, observer.Part{
		Name: lifecycle.ObjectCluster, Version: version, Value: &state, Owner: c.uid, Volatile: true, Size: size(state),
	})
	p.watchEvents(key, c, pods)
	if state.Settled || state.State == lifecycle.ClusterUnknown {
		return whileSettled
	}
	return whileMoving
}

// report passes an observation on.
func (p *Poller) report(key types.NamespacedName, observed observer.Part) {
	p.View.UpdateCluster(key, observed)
	p.Services.Update(key, observed)
}

// size returns about how many bytes a state takes.
func size(c lifecycle.Cluster) int {
	n := 256 + len(c.Note)
	for _, t := range c.Trouble {
		n += len(t.Reason) + len(t.Message) + 64
	}
	for _, p := range c.Parts {
		n += len(p.Revision) + 64
	}
	if c.Placement != nil {
		for _, s := range c.Placement.Split {
			n += len(s.Revision) + 32
		}
	}
	return n
}

// verified returns the pods that belong to the Service and declare a cluster. It also counts the pods that only claim
// to belong to it.
func (p *Poller) verified(
	ctx context.Context, key types.NamespacedName, uid types.UID,
) (out []*cluster.Pod, refused int, err error) {
	for _, pod := range p.Pods.Of(key) {
		declared, ok, err := pod.Declared()
		if !ok || err != nil || pod.ServiceUID != uid || pod.Over() {
			continue // the Revision reports a declaration that is not valid
		}
		var refusal *pods.RefusedError
		switch err := p.Pods.Owned(ctx, pod); {
		case errors.As(err, &refusal):
			refused++
			p.Metrics.Refused()
			logging.FromContext(ctx).Debugw("Not polling a pod that does not belong to the Service", "reason", refusal.Error())
			continue
		case err != nil:
			return nil, 0, err
		}
		out = append(out, podOf(pod, declared))
	}
	return out, refused, nil
}

func podOf(pod *pods.Pod, declared v1alpha1.Stateful) *cluster.Pod {
	return &cluster.Pod{
		Name: pod.Name, UID: pod.UID, IP: pod.IP, Revision: pod.Revision, Generation: pod.Generation, Ready: pod.Ready,
		Deleting: !pod.Deleting.IsZero(), Over: pod.Over(), Declared: declared, Sidecar: pod.Sidecar != "",
		MemberID: pod.Labels[pods.ProtoActor+"member-id"], ClusterName: pod.Labels[pods.ProtoActor+"cluster"],
	}
}

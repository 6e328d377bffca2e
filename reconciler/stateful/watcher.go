// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/pods"
)

// How often a cluster is polled.
const (
	whileMoving  = 5 * time.Second
	whileSettled = 15 * time.Second
	// afterNews delays the poll after a change, because one change comes in several steps.
	afterNews = 300 * time.Millisecond
)

// pollers is how many clusters are polled in parallel.
const pollers = 4

// pollTimeout limits one poll of all pods of a cluster.
const pollTimeout = 15 * time.Second

// Service describes the cluster that a Knative Service declares.
type Service struct {
	UID types.UID
	// Stateful is true if one of its Revisions declares a cluster.
	Stateful bool
	// Wrong is true if the annotations of the newest Revision are not valid.
	Wrong bool
}

// API reads the management API of a pod. Management implements it.
type API interface {
	Members(ctx context.Context, at netip.AddrPort) (Members, error)
	Shards(ctx context.Context, at netip.AddrPort, entityType string) ([]string, error)
	Events(ctx context.Context, at netip.AddrPort, changed func(event string)) error
}

// PodSource lists pods and verifies their owners. pods.Informer implements it.
type PodSource interface {
	Synced() bool
	Of(service types.NamespacedName) []*pods.Pod
	Owned(ctx context.Context, pod *pods.Pod) error
}

// Options configure a Watcher.
type Options struct {
	Pods PodSource
	API  API
	// Services lists the Services that declare a cluster, or try to.
	Services func() map[types.NamespacedName]Service
	// Leads reports whether this process is the leader for a Service.
	Leads func(types.NamespacedName) bool
	// Sequence returns the number of the newest transition of a Service.
	Sequence func(types.NamespacedName, types.UID) int64
	// Saw receives each observation of a cluster as a part of its Service.
	Saw func(types.NamespacedName, observer.Part)
	// Place receives the location of all shards, if all members answered and form one cluster. It returns how
	// far the cluster follows its plan, or nil if that is unknown. It may be nil.
	Place   func(context.Context, types.NamespacedName, Layout) *Placement
	Metrics Metrics
	Now     func() time.Time
}

// Watcher polls the clusters of the Services that this process leads.
type Watcher struct {
	Options
	queue   workqueue.TypedDelayingInterface[types.NamespacedName]
	version atomic.Uint64

	mu       sync.Mutex
	clusters map[types.NamespacedName]*cluster
}

// cluster is the state of one polled cluster. Fields that Watcher.mu does not guard belong
// to one poller at a time: the queue never hands out a key twice.
type cluster struct {
	uid     types.UID
	tracker tracker
	stream  stream

	// base and state come from the last poll, as does version, that of the observation. polled is when that poll
	// began. Watcher.mu guards them.
	base    int64
	state   lifecycle.ClusterState
	version string
	polled  time.Time
	// ended is done when this process stops polling the cluster.
	ended context.Context //nolint:containedctx // it ends when this process loses the lead
	end   context.CancelFunc
}

// NewWatcher returns a Watcher. The caller runs it with Run, and calls Changed whenever a
// pod of a Service changes.
func NewWatcher(o Options) *Watcher {
	return &Watcher{
		Options: o, clusters: map[types.NamespacedName]*cluster{},
		queue: workqueue.NewTypedDelayingQueue[types.NamespacedName](),
	}
}

// Changed schedules an early poll of a Service's cluster.
func (w *Watcher) Changed(service types.NamespacedName) {
	w.mu.Lock()
	_, known := w.clusters[service]
	w.mu.Unlock()
	if known {
		w.queue.AddAfter(service, afterNews)
	}
}

// Run polls clusters until the context ends.
func (w *Watcher) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	defer w.queue.ShutDown()
	for range pollers {
		running.Go(func() {
			for {
				key, over := w.queue.Get()
				if over {
					return
				}
				if again := w.poll(ctx, key); again > 0 {
					w.queue.AddAfter(key, again)
				}
				w.queue.Done(key)
			}
		})
	}
	every := time.NewTicker(whileMoving)
	defer every.Stop()
	for {
		w.sweep(ctx)
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// sweep starts polling the clusters that this process now leads, and stops polling the
// others.
func (w *Watcher) sweep(ctx context.Context) {
	if !w.Pods.Synced() {
		return
	}
	services := w.Services()
	w.forget(func(key types.NamespacedName) bool {
		s, ok := services[key]
		return !ok || !s.Stateful || s.UID != w.clusters[key].uid || !w.Leads(key)
	})
	var due []types.NamespacedName
	wrong := 0
	w.mu.Lock()
	for key, s := range services {
		if !w.Leads(key) {
			continue
		}
		if s.Wrong {
			wrong++
		}
		c := w.clusters[key]
		if c == nil && s.Stateful {
			c = &cluster{uid: s.UID, state: lifecycle.ClusterUnknown}
			c.ended, c.end = context.WithCancel(ctx)
			w.clusters[key] = c
			due = append(due, key)
			continue
		}
		// A transition since the last poll makes that poll outdated.
		if c != nil && w.Sequence(key, c.uid) != c.base {
			due = append(due, key)
		}
	}
	w.mu.Unlock()
	w.Metrics.Misdeclared(wrong)
	for _, key := range due {
		w.queue.Add(key)
	}
}

// forget stops polling the clusters that match. It also withdraws their observations, so
// that a new Service of the same name does not inherit them.
func (w *Watcher) forget(over func(types.NamespacedName) bool) {
	var gone []types.NamespacedName
	w.mu.Lock()
	for key, c := range w.clusters {
		if over(key) {
			c.end()
			delete(w.clusters, key)
			gone = append(gone, key)
		}
	}
	w.mu.Unlock()
	for _, key := range gone {
		w.Saw(key, observer.Part{Name: lifecycle.ObjectCluster, Version: w.next(), Volatile: true})
	}
}

// next returns the next version of an observation.
func (w *Watcher) next() string { return strconv.FormatUint(w.version.Add(1), 10) }

// States counts the polled clusters by state.
func (w *Watcher) States() map[lifecycle.ClusterState]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[lifecycle.ClusterState]int{}
	for _, c := range w.clusters {
		out[c.state]++
	}
	return out
}

// Polled returns when the last poll of a Service's cluster began, and the version of what was observed last. A poll that
// failed counts, too: what waits for one must not wait for ever.
func (w *Watcher) Polled(service types.NamespacedName) (began time.Time, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.clusters[service]; c != nil {
		return c.polled, c.version
	}
	return time.Time{}, ""
}

// poll polls one cluster and returns the delay until the next poll, or 0 for never.
func (w *Watcher) poll(ctx context.Context, key types.NamespacedName) time.Duration {
	w.mu.Lock()
	c := w.clusters[key]
	w.mu.Unlock()
	if c == nil || !w.Leads(key) {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	stop := context.AfterFunc(c.ended, cancel) //nolint:contextcheck // ended ends the poll when this process loses the lead
	defer stop()

	began := w.Now()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		c.polled = began
	}()
	base := w.Sequence(key, c.uid) // before the first request
	subjects, refused, err := w.subjects(ctx, key, c.uid)
	if err != nil {
		if ctx.Err() == nil {
			logging.FromContext(ctx).Warnw("Failed to verify the pods of a cluster; retrying", "service", key, "error", err)
		}
		w.Metrics.Polled("failed")
		return whileMoving
	}
	answers := w.ask(ctx, subjects)
	o := observe(subjects, answers)
	if refused > 0 && len(subjects) == 0 {
		// The Service may own pods in a way that we cannot verify.
		o.seen.State = lifecycle.ClusterUnknown
		o.seen.Note = fmt.Sprintf("none of the %d pods with the labels of the Service belongs to the Service", refused)
	}
	if c.ended.Err() != nil {
		return 0
	}
	view := c.tracker.next(o, w.Now())
	view.Base = base
	w.Metrics.Polled(outcome(o))
	version := w.next()
	w.mu.Lock()
	c.base, c.state, c.version = base, view.State, version
	w.mu.Unlock()
	if w.Place != nil && o.complete && o.split == nil && len(o.members) > 0 {
		w.Place(ctx, key, layout(c.uid, subjects, answers)).in(&view)
	}
	w.Saw(key, observer.Part{Name: lifecycle.ObjectCluster, Version: version, Value: &view, Owner: c.uid, Volatile: true, Size: size(view)})
	w.follow(key, c, subjects)
	if view.Settled || view.State == lifecycle.ClusterUnknown {
		return whileSettled
	}
	return whileMoving
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

func outcome(o observation) string {
	switch {
	case o.seen.State == lifecycle.ClusterUnknown:
		return "unanswered"
	case !o.complete:
		return "partial"
	}
	return "complete"
}

// subjects returns the pods that belong to the Service and declare a cluster. It also
// counts the pods that only claim to belong to it.
func (w *Watcher) subjects(ctx context.Context, key types.NamespacedName, uid types.UID) (out []subject, strangers int, err error) {
	for _, pod := range w.Pods.Of(key) {
		declared, ok, err := pod.Declared()
		if !ok || err != nil || pod.ServiceUID != uid || pod.Over() {
			continue // the Revision reports a declaration that is not valid
		}
		var refused *pods.RefusedError
		switch err := w.Pods.Owned(ctx, pod); {
		case errors.As(err, &refused):
			strangers++
			w.Metrics.Refused()
			logging.FromContext(ctx).Debugw("Not polling a pod that does not belong to the Service", "reason", refused.Error())
			continue
		case err != nil:
			return nil, 0, err
		}
		out = append(out, subject{pod: pod, declared: declared})
	}
	return out, strangers, nil
}

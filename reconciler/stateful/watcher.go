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

// How often a cluster is looked at.
const (
	whileMoving  = 5 * time.Second
	whileSettled = 15 * time.Second
	// afterNews is how long to wait when something has changed: what changes does
	// so in several steps.
	afterNews = 300 * time.Millisecond
)

// pollers is how many clusters are looked at side by side.
const pollers = 4

// pollTimeout bounds one look, with all pods of one cluster.
const pollTimeout = 15 * time.Second

// Service is a Knative Service, as far as it concerns its cluster.
type Service struct {
	UID types.UID
	// Stateful: one of its Revisions declares a cluster.
	Stateful bool
	// Wrong: the newest has annotations that cannot be read.
	Wrong bool
}

// API is what is asked of a pod.
type API interface {
	Members(ctx context.Context, at netip.AddrPort) (Members, error)
	Shards(ctx context.Context, at netip.AddrPort, entityType string) ([]string, error)
	Events(ctx context.Context, at netip.AddrPort, changed func(event string)) error
}

// PodSource knows pods.
type PodSource interface {
	Synced() bool
	Of(service types.NamespacedName) []*pods.Pod
	Owned(ctx context.Context, pod *pods.Pod) error
}

// Options are what a Watcher is made from.
type Options struct {
	Pods PodSource
	API  API
	// Services lists those that declare a cluster, or try to.
	Services func() map[types.NamespacedName]Service
	// Leads says whether this process leads for a Service.
	Leads func(types.NamespacedName) bool
	// Sequence is the number of the newest transition of a Service.
	Sequence func(types.NamespacedName, types.UID) int64
	// Saw takes what was seen of a cluster, as one more part of its Service.
	Saw     func(types.NamespacedName, observer.Part)
	Metrics Metrics
	Now     func() time.Time
}

// Watcher looks at the clusters that this process leads for.
type Watcher struct {
	Options
	queue   workqueue.TypedDelayingInterface[types.NamespacedName]
	version atomic.Uint64

	mu       sync.Mutex
	clusters map[types.NamespacedName]*cluster
}

// cluster is one that is being looked at. What is not guarded by Watcher.mu is
// used by one poller at a time: the queue hands out no key twice.
type cluster struct {
	uid     types.UID
	tracker tracker
	stream  stream

	// base and state are those of the last look, guarded by Watcher.mu.
	base  int64
	state lifecycle.ClusterState
	// ended is closed when the cluster is not looked at any more.
	ended context.Context //nolint:containedctx // the time in which this process leads for it
	end   context.CancelFunc
}

// NewWatcher returns a Watcher. Run must be called, and Changed whenever a pod of
// a Service changes.
func NewWatcher(o Options) *Watcher {
	return &Watcher{
		Options: o, clusters: map[types.NamespacedName]*cluster{},
		queue: workqueue.NewTypedDelayingQueue[types.NamespacedName](),
	}
}

// Changed has the cluster of a Service looked at soon.
func (w *Watcher) Changed(service types.NamespacedName) {
	w.mu.Lock()
	_, known := w.clusters[service]
	w.mu.Unlock()
	if known {
		w.queue.AddAfter(service, afterNews)
	}
}

// Run looks at clusters until the context ends.
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

// sweep begins to look at what this process leads for, and ends with what it does
// not any more.
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
		// What was told since makes the last look one of the past.
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

// forget ends with some clusters. What was seen of them is taken back, or it would
// stand there for a Service of the same name.
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

// next numbers what is seen: a part that is seen later is newer.
func (w *Watcher) next() string { return strconv.FormatUint(w.version.Add(1), 10) }

// States counts the clusters that are looked at, by state.
func (w *Watcher) States() map[lifecycle.ClusterState]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[lifecycle.ClusterState]int{}
	for _, c := range w.clusters {
		out[c.state]++
	}
	return out
}

// poll looks at one cluster, and says when to look again; 0 for never.
func (w *Watcher) poll(ctx context.Context, key types.NamespacedName) time.Duration {
	w.mu.Lock()
	c := w.clusters[key]
	w.mu.Unlock()
	if c == nil || !w.Leads(key) {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	stop := context.AfterFunc(c.ended, cancel) //nolint:contextcheck // it is the time in which we lead
	defer stop()

	base := w.Sequence(key, c.uid) // before the first question
	subjects, refused, err := w.subjects(ctx, key, c.uid)
	if err != nil {
		if ctx.Err() == nil {
			logging.FromContext(ctx).Warnw("Could not list the pods of a cluster; retrying", "service", key, "error", err)
		}
		w.Metrics.Polled("failed")
		return whileMoving
	}
	o := observe(subjects, w.ask(ctx, subjects))
	if refused > 0 && len(subjects) == 0 {
		// Perhaps it has pods all the same, in a way that we do not know.
		o.seen.State = lifecycle.ClusterUnknown
		o.seen.Note = fmt.Sprintf("none of the %d pods with the labels of the Service belongs to it", refused)
	}
	if c.ended.Err() != nil {
		return 0
	}
	view := c.tracker.next(o, w.Now())
	view.Base = base
	w.Metrics.Polled(outcome(o))
	w.mu.Lock()
	c.base, c.state = base, view.State
	w.mu.Unlock()
	w.Saw(key, observer.Part{Name: lifecycle.ObjectCluster, Version: w.next(), Value: &view, Owner: c.uid, Volatile: true})
	w.follow(key, c, subjects)
	if view.Settled || view.State == lifecycle.ClusterUnknown {
		return whileSettled
	}
	return whileMoving
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

// subjects are the pods that belong to the Service and declare a cluster. It also
// counts those that only claim to.
func (w *Watcher) subjects(ctx context.Context, key types.NamespacedName, uid types.UID) (out []subject, strangers int, err error) {
	for _, pod := range w.Pods.Of(key) {
		declared, ok, err := pod.Declared()
		if !ok || err != nil || pod.ServiceUID != uid || pod.Over() {
			continue // what is declared wrongly is told of with the Revision
		}
		var refused *pods.RefusedError
		switch err := w.Pods.Owned(ctx, pod); {
		case errors.As(err, &refused):
			strangers++
			w.Metrics.Refused()
			logging.FromContext(ctx).Debugw("A pod is not polled", "reason", refused.Error())
			continue
		case err != nil:
			return nil, 0, err
		}
		out = append(out, subject{pod: pod, declared: declared})
	}
	return out, strangers, nil
}

// Package gate runs canary gates: those that Tekton's CustomRuns ask for, and those
// that watch by themselves.
//
// Its invariants: of what users own it writes nothing but the status of CanaryGates
// and of CustomRuns that name one; only the replica that leads for a Service, and
// reads its pods, works on its runs, and everything that the next one needs stands in
// a CanaryGateRun, which is written before the status that people read; a verdict is
// told after it was written, and again after a restart, so that it is never lost; what
// was written last wins, and whoever looked at something older looks again.
package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
)

// workers judge side by side.
const workers = 4

const (
	// waiting is how often a run is looked at that has nothing to judge yet.
	waiting = 2 * time.Second
	// retryAfter is how long a failed write waits, and conflicted how long one that
	// somebody else came before.
	retryAfter = 5 * time.Second
	conflicted = 500 * time.Millisecond
	// patrol is how often everything is looked at, whatever was told.
	patrol = time.Minute
)

// Presence says when kinds exist.
type Presence interface {
	While(ctx context.Context, definitions []string, run func(context.Context), absent func())
}

// Options are what gates are made from.
type Options struct {
	Client *client.Clientset
	// Namespace is the controller's own, where runs are kept that are under way.
	Namespace string
	// Runs reads and writes CustomRuns.
	Runs     dynamic.Interface
	Presence Presence
	// Service says what is known of one: nil if there is none, false as long as that
	// is not known.
	Service func(types.NamespacedName) (*gaterun.Service, bool)
	Counts  gaterun.Counts
	// Leads says whether this process works on the runs of a Service. Whoever gives it
	// calls LookAgain when it leads for more.
	Leads func(types.NamespacedName) bool
	// Finished is told of every run that is over and found its Service, at least once.
	Finished func(service types.NamespacedName, serviceUID types.UID, run *v1alpha1.GateRun)
	Metrics  *Metrics
	Now      func() time.Time
	// Look is how is judged; nil for what canary/judge does.
	Look gaterun.Analyze
	// After changes how long is waited; nil for as long as it is.
	After func(time.Duration) time.Duration
	// Stopping is closed when the process ends.
	Stopping <-chan struct{}
}

// Gate holds what both controllers share.
type Gate struct {
	Options
	told  *told
	gates cache.SharedIndexInformer
	runs  *runs
	looks []func()
	// records of the runs that are under way.
	records *records
	// changed has a gate be looked at; its key.
	changed func(types.NamespacedName)
}

// New makes what both controllers share. Gates and CustomRuns make them.
func New(o Options) *Gate {
	if o.Look == nil {
		o.Look = (*judge.Run).Analyze
	}
	if o.After == nil {
		o.After = func(d time.Duration) time.Duration { return d }
	}
	known := func(service types.NamespacedName) bool {
		_, known := o.Service(service)
		return known
	}
	g := &Gate{
		Options: o, told: newTold(o.Now, known, o.Finished), records: newRecords(o.Client.CanaryGateRuns(o.Namespace)),
		changed: func(types.NamespacedName) {},
	}
	g.gates = client.NewGateInformer(o.Client, metav1.NamespaceAll, 0, nil)
	g.runs = newRuns(o.Runs)
	return g
}

// Informer of CanaryGates, which runs as long as there is such a kind.
func (g *Gate) Informer() cache.SharedIndexInformer { return g.gates }

// LookAgain has everything looked at that this process leads for. What it told as a
// leader of before may have been lost with that lead.
func (g *Gate) LookAgain() {
	g.told.forget()
	g.records.forget()
	for _, look := range g.looks {
		look()
	}
}

// controller makes one of the two.
func (g *Gate) controller(ctx context.Context, name string, r controller.Reconciler, informer func() cache.SharedIndexInformer) *controller.Impl {
	impl := controller.NewContext(ctx, r, controller.ControllerOptions{
		WorkQueueName: name, Logger: logging.FromContext(ctx), Concurrency: workers,
	})
	look := func() {
		for _, obj := range informer().GetStore().List() {
			impl.Enqueue(obj)
		}
	}
	g.looks = append(g.looks, look)
	go func() {
		tick := time.NewTicker(g.After(patrol))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				look()
			}
		}
	}()
	return impl
}

// stopping says whether the process ends: the next leader goes on.
func (g *Gate) stopping() bool {
	select {
	case <-g.Stopping:
		return true
	default:
		return false
	}
}

func (g *Gate) requeue(d time.Duration) error { return controller.NewRequeueAfter(g.After(d)) }

// moment is what is known now of a Service.
func (g *Gate) moment(service types.NamespacedName) gaterun.Moment {
	m := gaterun.Moment{Now: g.Now(), Counts: g.Counts, Analyze: g.Look}
	m.Service, m.Known = g.Service(service)
	return m
}

// find returns a CanaryGate, nil if there is none: the API server is asked before that
// is said, as the cache may be behind.
func (g *Gate) find(ctx context.Context, namespace, name string) (*v1alpha1.CanaryGate, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // none is not an error
	}
	obj, ok, err := g.gates.GetStore().GetByKey(namespace + "/" + name)
	if gate, is := obj.(*v1alpha1.CanaryGate); err == nil && ok && is {
		return gate, nil
	}
	gate, err := g.Client.CanaryGates(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // none is not an error
	case err != nil:
		return nil, fmt.Errorf("reading CanaryGate %s/%s: %w", namespace, name, err)
	}
	return gate, nil
}

// later is what follows from a write that failed.
func (g *Gate) later(ctx context.Context, what string, err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return nil // it is gone
	case apierrors.IsConflict(err), errors.Is(err, errMoved):
		return g.requeue(conflicted)
	}
	if ctx.Err() == nil {
		logging.FromContext(ctx).Warnw("Could not process a "+what+"; retrying", "error", err)
	}
	return g.requeue(retryAfter)
}

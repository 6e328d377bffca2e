// SPDX-License-Identifier: Apache-2.0

// Package gate runs canary gates: those that Tekton's CustomRuns request, and those that
// watch a Service.
//
// Its invariants:
//   - Of the objects that users own, it writes only the status of CanaryGates and of the
//     CustomRuns that refer to one.
//   - Only the leader of a Service, which scrapes its pods, works on its runs.
//   - A CanaryGateRun contains everything that the next leader needs, and is written
//     before the status.
//   - A verdict is reported after it was stored, and again after a restart, so it is
//     never lost.
//   - The last write wins: a sync from an older version conflicts and is retried.
package gate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// workers is the number of concurrent syncs of each controller.
const workers = 4

const (
	// pollInterval is how often a run without evidence is synced.
	pollInterval = 2 * time.Second
	// retryDelay follows a failed write, and conflictDelay a conflict.
	retryDelay    = 5 * time.Second
	conflictDelay = 500 * time.Millisecond
	// resyncEvery is how often everything is synced, without any event.
	resyncEvery = time.Minute
)

// Presence runs functions while kinds exist.
type Presence interface {
	While(ctx context.Context, definitions []string, run func(context.Context), absent func())
}

// Services are the watched Knative Services. servicestate.View implements it.
type Services interface {
	// Service returns the state of a Service: nil if it does not exist, false until
	// that is known.
	Service(key types.NamespacedName) (s *gaterun.Service, known bool)
}

// Leader says what this process leads for.
type Leader interface {
	IsLeaderFor(service types.NamespacedName) bool
}

// Verdicts receives the verdict of every completed run that found its Service, at least once. service.Verdicts
// implements it.
type Verdicts interface {
	Reached(key types.NamespacedName, service types.UID, v lifecycle.Verdict)
}

// Options configure a Gate.
type Options struct {
	Client *client.Clientset
	// Namespace is the controller's own. It contains the CanaryGateRuns.
	Namespace string
	// Runs reads and writes CustomRuns.
	Runs     dynamic.Interface
	Presence Presence
	Services Services
	Counts   gaterun.Counts
	// Leader leads for the Services on whose runs this process works. Call Resync when
	// it gains more of them.
	Leader   Leader
	Verdicts Verdicts
	Metrics  *Metrics
	Clock    clock.WithTicker
	// Analyze evaluates the evidence of a run.
	Analyze gaterun.Analyze
	// Queries asks the operator's queries; nil if there are none.
	Queries *Queries
	// Stopping is closed when the process ends.
	Stopping <-chan struct{}
}

// Gate is the state that both controllers share.
type Gate struct {
	Options
	reporter *reporter
	gates    cache.SharedIndexInformer
	// templates that gates refer to.
	templates cache.SharedIndexInformer
	runs      *runs
	resyncs   []func()
	// records of the runs in progress.
	records *records
	// kept says that what a finished run measured was kept since the last prune.
	kept atomic.Bool
	// copied has the IDs of finished runs whose record exists, and that were kept.
	copied sync.Map
	// quiet is until when nothing has happened since the last window of a run, by its ID.
	quiet sync.Map
}

// New returns the shared state. Gates and CustomRuns return the controllers.
func New(o Options) *Gate {
	g := &Gate{
		Options:  o,
		reporter: newReporter(o.Clock.Now, o.Services, o.Verdicts),
		records:  newRecords(o.Client.CanaryGateRuns(o.Namespace)),
	}
	g.records.keep = g.keep
	g.records.tell = g.tell
	g.records.gone = func(run *v1alpha1.GateRun) {
		g.copied.Delete(run.ID)
		g.quiet.Delete(run.ID)
	}
	g.gates = client.NewGateInformer(o.Client, metav1.NamespaceAll, 0, cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, byTemplate: indexByTemplate,
	})
	g.templates = client.NewTemplateInformer(o.Client, 0)
	g.runs = newRuns(o.Runs)
	return g
}

// tell reports the verdict of a run that another one follows. It returns false if it is too early.
func (g *Gate) tell(namespace string, run *v1alpha1.GateRun) bool {
	service := types.NamespacedName{Namespace: namespace, Name: run.Service.Name}
	if run.CompletionTime != nil && run.Service.UID != "" && !g.Leader.IsLeaderFor(service) {
		// The gate now names another Service. The leader of this one reports the verdict when the run ends or when it finds
		// the record, which it then deletes.
		return g.Clock.Now().Sub(run.CompletionTime.Time) < recordGracePeriod
	}
	_, told := g.reporter.tell(namespace, run)
	return told
}

// Synced reports whether all CanaryGates are known. Their informer runs once the kind exists.
func (g *Gate) Synced() bool { return g.gates.HasSynced() }

// Cached returns a CanaryGate from the cache.
func (g *Gate) Cached(key types.NamespacedName) (*v1alpha1.CanaryGate, error) {
	return client.NewGateLister(g.gates.GetIndexer()).Namespaced(key.Namespace).Get(key.Name) //nolint:wrapcheck // complete
}

// Resync syncs everything that this process leads for, and reports verdicts again: what
// it reported as an earlier leader may be lost.
func (g *Gate) Resync() {
	g.reporter.forget()
	g.records.forget()
	g.quiet.Clear()
	g.copied.Clear()
	for _, resync := range g.resyncs {
		resync()
	}
}

// controller returns one of the two controllers.
func (g *Gate) controller(
	ctx context.Context,
	name string,
	r controller.Reconciler,
	informer func() cache.SharedIndexInformer,
) *controller.Impl {
	impl := controller.NewContext(ctx, r, controller.ControllerOptions{
		WorkQueueName: name, Logger: logging.FromContext(ctx), Concurrency: workers,
	})
	resync := func() {
		for _, obj := range informer().GetStore().List() {
			impl.Enqueue(obj)
		}
	}
	g.resyncs = append(g.resyncs, resync)
	go g.everyResync(ctx, resync)
	return impl
}

// everyResync calls f at each resync until ctx ends.
func (g *Gate) everyResync(ctx context.Context, f func()) {
	tick := g.Clock.NewTicker(resyncEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
			f()
		}
	}
}

// stopping reports whether the process ends. The next leader continues. The caches are dropped then, so whoever has
// read that a Service does not exist asks again.
func (g *Gate) stopping() bool {
	select {
	case <-g.Stopping:
		return true
	default:
		return false
	}
}

// moment returns the input of a step for a Service.
func (g *Gate) moment(service types.NamespacedName) gaterun.Moment {
	m := gaterun.Moment{Now: g.Clock.Now(), Counts: g.Counts, Analyze: g.Analyze}
	m.Service, m.Known = g.Services.Service(service)
	return m
}

// resume continues a stored run. It is never nil: if there is an error, Fail can still end it.
func (g *Gate) resume(ctx context.Context, namespace string, stored *v1alpha1.GateRun) (*gaterun.Run, error) {
	run, err := gaterun.Resume(ctx, namespace, stored)
	logBug(ctx, run, err)
	if until, ok := g.quiet.Load(stored.ID); ok {
		run.Quiet, _ = until.(time.Time)
	}
	return run, err //nolint:wrapcheck // the error is complete
}

func (g *Gate) step(ctx context.Context, run *gaterun.Run, m gaterun.Moment) {
	logBug(ctx, run, run.Step(m))
	if run.Done() {
		g.quiet.Delete(run.GateRun.ID)
	} else if !run.Quiet.IsZero() {
		g.quiet.Store(run.GateRun.ID, run.Quiet)
	}
}

// logBug logs where a run panicked.
func logBug(ctx context.Context, run *gaterun.Run, err error) {
	var p *gaterun.ProblemError
	if errors.As(err, &p) && p.Stack != "" {
		logging.FromContext(ctx).Errorw("A run of a gate panicked, which is a bug: please report it",
			"service", run.Namespace+"/"+run.GateRun.Service.Name, "run", run.GateRun.ID, "error", err, "stack", p.Stack)
	}
}

// find returns a CanaryGate, or nil. Only the API server can say that there is none: the
// cache may be behind.
func (g *Gate) find(ctx context.Context, namespace, name string) (*v1alpha1.CanaryGate, error) {
	obj, ok, err := g.gates.GetStore().GetByKey(namespace + "/" + name)
	if gate, is := obj.(*v1alpha1.CanaryGate); err == nil && ok && is {
		return gate, nil
	}
	return g.read(ctx, namespace, name)
}

// read returns a CanaryGate as the API server has it, or nil.
func (g *Gate) read(ctx context.Context, namespace, name string) (*v1alpha1.CanaryGate, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // its absence is not an error
	}
	gate, err := g.Client.CanaryGates(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // its absence is not an error
	case err != nil:
		return nil, fmt.Errorf("reading CanaryGate %s/%s: %w", namespace, name, err)
	}
	return gate, nil
}

// retry requeues after a failed write.
func (g *Gate) retry(ctx context.Context, what string, err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return nil // it is deleted
	case apierrors.IsConflict(err), errors.Is(err, errConflict):
		return controller.NewRequeueAfter(conflictDelay)
	case errors.Is(err, errUntold):
		return controller.NewRequeueAfter(retryDelay)
	}
	if ctx.Err() == nil {
		logging.FromContext(ctx).Warnw("Could not process a "+what+"; retrying", "error", err)
	}
	return controller.NewRequeueAfter(retryDelay)
}

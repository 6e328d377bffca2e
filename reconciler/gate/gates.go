package gate

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
)

// Gates makes the controller of CanaryGates.
func (g *Gate) Gates(ctx context.Context) *controller.Impl {
	c := &gates{Gate: g, written: map[string]time.Time{}}
	impl := g.controller(ctx, "canarygates", c, func() cache.SharedIndexInformer { return g.gates })
	g.changed = impl.EnqueueKey
	go g.patrolRecords(ctx)
	_, err := g.gates.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    impl.Enqueue,
		UpdateFunc: controller.PassNew(impl.Enqueue),
		DeleteFunc: func(obj any) {
			if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				g.Metrics.gone(key)
				c.forget(key)
			}
		},
	})
	if err != nil {
		logging.FromContext(ctx).Fatalw("CanaryGates cannot be watched", "error", err)
	}
	// Where an older release's definitions are in force, there is no such kind yet.
	started := false
	go g.Presence.While(ctx, []string{definition}, func(context.Context) {
		if !started {
			started = true
			go g.gates.RunWithContext(ctx)
		}
	}, func() {})
	return impl
}

type gates struct {
	*Gate
	mu      sync.Mutex
	written map[string]time.Time
}

// Reconcile takes one CanaryGate as far as it comes.
func (c *gates) Reconcile(ctx context.Context, key string) error {
	obj, ok, err := c.gates.GetStore().GetByKey(key)
	gate, is := obj.(*v1alpha1.CanaryGate)
	if err != nil || !ok || !is || gate.DeletionTimestamp != nil || c.stopping() {
		return nil //nolint:nilerr // a key that is none is of no object
	}
	l := &look{gates: c, gate: gate, status: *gate.Status.DeepCopy(), spec: gate.Spec.DeepCopy()}
	l.spec.SetDefaults(ctx)
	if !c.Leads(l.service()) {
		return nil
	}
	if err := l.recall(ctx); err != nil {
		return c.later(ctx, "CanaryGate", err)
	}
	wait := l.do(ctx)
	if err := l.record(ctx); err != nil {
		return c.later(ctx, "CanaryGate", err)
	}
	if err := l.write(ctx); err != nil {
		return c.later(ctx, "CanaryGate", err)
	}
	if l.again {
		wait = waiting // the new split's run is opened in a write of its own
	}
	return c.requeue(wait)
}

// look is one look at one gate.
type look struct {
	*gates
	gate   *v1alpha1.CanaryGate
	spec   *v1alpha1.CanaryGateSpec
	status v1alpha1.CanaryGateStatus
	again  bool
	// run is the one under way, as it is kept, and now the same after this look.
	run, now *v1alpha1.GateRun
}

func (l *look) owner() owner {
	return owner{Kind: ofGate, Namespace: l.gate.Namespace, Name: l.gate.Name, UID: l.gate.UID}
}

// recall finds the run that is kept, if one is under way. In a status there is one only
// where a release before has left it.
func (l *look) recall(ctx context.Context) error { return l.recallFrom(ctx, false) }

// recallFrom what the API server says if it is to be fresh.
func (l *look) recallFrom(ctx context.Context, fresh bool) error {
	run := l.gate.Status.Run
	if run == nil || run.CompletionTime != nil {
		return nil
	}
	kept, err := l.records.get(ctx, l.owner())
	switch {
	case err != nil:
		return err
	case kept != nil && kept.ID == run.ID:
		l.run = kept
	case kept != nil && fresh: // a restored status, or one that the cache has not heard of
		return l.restart(ctx, run)
	case kept != nil:
		l.records.keep(l.owner().name(), nil)
		return l.recallFrom(ctx, true)
	case run.Spec != nil:
		l.run = run
	default:
		return l.restart(ctx, run)
	}
	return nil
}

// restart begins a run anew whose record is lost. Nobody was told of a verdict yet.
func (l *look) restart(ctx context.Context, run *v1alpha1.GateRun) error {
	if err := l.current(ctx); err != nil {
		return err
	}
	again, err := gaterun.Open(ctx, l.gate.Namespace, run.ID, l.spec, run.StartTime.Time, 0)
	if err != nil {
		return fmt.Errorf("beginning a run anew: %w", err)
	}
	again.GateRun.Gate, again.GateRun.Deadline = l.gate.Name, run.Deadline
	l.run = again.GateRun
	return nil
}

// current says whether the cache knows what the API server does.
func (l *look) current(ctx context.Context) error {
	is, err := l.Client.CanaryGates(l.gate.Namespace).Get(ctx, l.gate.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading CanaryGate %s/%s: %w", l.gate.Namespace, l.gate.Name, err)
	}
	if is.UID != l.gate.UID || is.ResourceVersion != l.gate.ResourceVersion {
		return errMoved
	}
	return nil
}

// record keeps the run, if it has changed.
func (l *look) record(ctx context.Context) error {
	if l.now == nil || l.run != nil && equality.Semantic.DeepEqual(l.run, l.now) && l.records.cached(l.owner().name()) != nil {
		return nil
	}
	if l.run == nil {
		if err := l.current(ctx); err != nil {
			return err
		}
		// One that nobody was told of, as its process died, is not gone on with.
		if _, err := l.records.get(ctx, l.owner()); err != nil {
			return err
		}
	}
	return l.records.put(ctx, l.owner(), l.now)
}

// service whose leader works on the gate: of a run that is under way, its own.
func (l *look) service() types.NamespacedName {
	key := types.NamespacedName{Namespace: l.gate.Namespace, Name: l.gate.Spec.Service}
	if run := l.gate.Status.Run; run != nil && run.CompletionTime == nil {
		key.Name = run.Service.Name
	}
	return key
}

// do changes the status, and says when to look again.
func (l *look) do(ctx context.Context) time.Duration {
	defer func() { l.status.Latest = l.latest() }()
	m := l.moment(l.service())
	run := l.status.Run
	if run != nil && run.CompletionTime == nil {
		wait := l.proceed(ctx, m)
		l.conditions(ctx, m)
		return wait
	}
	// The next run takes the place of this one, which the process that ended it may
	// not have told of.
	told := run == nil || l.tell()
	divided := l.divided()
	l.conditions(ctx, m)
	if told && l.spec.Watch && m.Known && gaterun.ShouldOpen(run, l.spec.Service, m.Service, divided) {
		if _, p := gaterun.Choose(l.spec.Service, m.Service, l.spec.Canary, l.spec.Baseline); p == nil && l.gate.Validate(ctx) == nil {
			return l.open(ctx, m)
		}
	}
	return span(l.spec)
}

func span(spec *v1alpha1.CanaryGateSpec) time.Duration { return spec.Schedule.Interval.Duration }

// open opens a run at a new split.
func (l *look) open(ctx context.Context, m gaterun.Moment) time.Duration {
	id := fmt.Sprintf("%s-%d", l.gate.UID, m.Now.UnixMilli())
	run, err := gaterun.Open(ctx, l.gate.Namespace, id, l.spec, m.Now, 0)
	if err != nil {
		return retryAfter // a spec that was read can be written
	}
	run.GateRun.Gate = l.gate.Name
	run.Step(m)
	l.now, l.status.Run = run.GateRun, run.GateRun.Public()
	if !run.Gathering() {
		return waiting
	}
	return run.Wait(m.Now)
}

// proceed takes the run that is under way as far as it comes.
func (l *look) proceed(ctx context.Context, m gaterun.Moment) time.Duration {
	run, err := gaterun.Resume(ctx, l.gate.Namespace, l.run)
	if err != nil {
		run.Fail(m.Now, err)
	}
	// The status may be behind what is kept.
	defer func() { l.now, l.status.Run = run.GateRun, run.GateRun.Public() }()
	moved := run.GateRun.Service.Name != l.gate.Spec.Service
	if moved {
		run.Supersede(m.Now, gaterun.GateChanged, fmt.Sprintf("the gate now names Service %q", l.gate.Spec.Service))
	}
	if wait := run.Due().Sub(m.Now); err == nil && !moved && wait > 0 && run.Gathering() {
		return wait
	}
	run.Step(m)
	switch {
	case run.Done():
		l.again = true
		return waiting
	case !run.Gathering():
		return waiting
	}
	return run.Wait(m.Now)
}

// write writes the status if it has changed, at most once in an interval unless a run
// begins or ends; and it tells of one that is over.
func (l *look) write(ctx context.Context) error {
	key := types.NamespacedName{Namespace: l.gate.Namespace, Name: l.gate.Name}
	if l.status.ObservedGeneration = l.gate.Generation; !alike(l.status, l.gate.Status) {
		if !l.urgent() && !l.due(key.String()) {
			return nil
		}
		changed := l.gate.DeepCopy()
		changed.Status = l.status
		if _, err := l.Client.CanaryGates(key.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("writing the status of CanaryGate %s: %w", key, err)
		}
		l.wrote(key.String())
	}
	if l.status.Run == nil {
		return nil
	}
	l.tell() // if it is too early, the next look tells
	if l.status.Run.CompletionTime == nil {
		return nil
	}
	return l.records.drop(ctx, l.owner()) // or the patrol does it
}

// tell tells of the run as it was written; false if it is too early.
func (l *look) tell() bool {
	l.Metrics.saw(l.gate.Namespace, l.status.Run)
	return l.told.tell(l.gate.Namespace, l.status.Run)
}

// due says whether the status may be written again.
func (l *look) due(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.Now().Before(l.written[key].Add(span(l.spec)))
}

func (c *gates) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.written, key)
}

func (l *look) wrote(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written[key] = l.Now()
}

// urgent is what is not put off.
func (l *look) urgent() bool {
	was, is := l.gate.Status.Run, l.status.Run
	old, latest := l.gate.Status.Latest, l.status.Latest
	switch {
	case latest != nil && (old == nil || old.ID != latest.ID || old.Verdict != latest.Verdict):
		return true
	case l.gate.Status.ObservedGeneration != l.gate.Generation:
		return true
	case l.divided() != divided(&l.status):
		return true // a split that comes again before this is written were no new one
	case is == nil:
		return false
	case was == nil || was.ID != is.ID:
		return true
	}
	return was.CompletionTime == nil && (is.CompletionTime != nil || was.Canary.Name != is.Canary.Name)
}

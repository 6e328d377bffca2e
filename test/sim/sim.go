package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/reconciler/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// world is one run: a cluster, a sink, and the processes of the controller.
type world struct {
	rng     *rand.Rand
	store   *store.Store
	cluster *cluster
	source  *v1alpha1.CDEventSource
	quiet   *zap.SugaredLogger

	processes []*process
	// lastStart counts the processes that were started.
	lastStart int
	sinkDown  bool
	flaky     bool
	// dieIn counts side effects down to a crash; 0 for none.
	dieIn   int
	crashes int

	got      []delivered
	bytes    map[string]string
	doubles  int
	problems []string
}

// delivered is an event as the sink got it, the first time.
type delivered struct {
	uid     types.UID
	typ     string
	traffic []lifecycle.Share
}

func newWorld(seed uint64) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 7)), store: store.New(), source: newSource(), //nolint:gosec // a simulation must be reproducible
		quiet: zap.NewNop().Sugar(), bytes: map[string]string{},
	}
	w.cluster = newCluster(w.store, w.rng)
	w.store.Before = func(verb, _ string) error { w.effect(verb); return nil }
	w.store.After = func(verb, _ string) error { w.effect(verb + " done"); return nil }
	return w
}

func (w *world) fail(format string, args ...any) {
	if len(w.problems) < 20 {
		w.problems = append(w.problems, fmt.Sprintf(format, args...))
	}
}

// effect is called around every side effect; a process may die at any.
func (w *world) effect(string) {
	if w.dieIn > 0 {
		if w.dieIn--; w.dieIn == 0 {
			panic(errCrash)
		}
	}
}

// alive runs f in a process and says whether it is still alive after.
func (w *world) alive(p *process, f func()) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		if r != any(errCrash) {
			panic(r)
		}
		w.crashes++
		w.kill(p)
	}()
	f()
}

func (w *world) kill(p *process) {
	p.cancel()
	w.processes = slices.DeleteFunc(w.processes, func(o *process) bool { return o == p })
}

// received notes what the sink got.
func (w *world) received(ev event.Event, raw string) {
	if had, ok := w.bytes[ev.ID()]; ok {
		w.doubles++
		if had != raw {
			w.fail("the same id with other bytes:\n%s\n%s", had, raw)
		}
		return
	}
	w.bytes[ev.ID()] = raw
	var body struct {
		CustomData struct {
			Knative struct {
				UID     string            `json:"uid"`
				Traffic []lifecycle.Share `json:"traffic"`
			} `json:"knative"`
		} `json:"customData"`
	}
	if err := json.Unmarshal(ev.Data(), &body); err != nil {
		w.fail("an event cannot be read: %v", err)
	}
	d := delivered{uid: types.UID(body.CustomData.Knative.UID), typ: ev.Type(), traffic: body.CustomData.Knative.Traffic}
	w.got = append(w.got, d)
}

// baseline is when the first controller started, as its marker says.
func (w *world) baseline() time.Time {
	for _, o := range w.store.All() {
		if o.Spec.Kind == ledger.BaselineKind {
			return o.CreationTimestamp.Time
		}
	}
	return w.cluster.now.Add(time.Hour)
}

// step lets one process do one thing.
func (w *world) step(p *process) {
	w.alive(p, func() {
		switch w.rng.IntN(9) {
		case 8:
			if all := w.store.All(); len(all) > 0 {
				p.ledgered(all[w.rng.IntN(len(all))])
			}
		case 0, 1, 2:
			p.watch(w.rng.IntN(3))
		case 3, 4, 5:
			p.reconcile()
		case 6:
			p.deliver()
		case 7:
			p.flush()
			p.collect(w.cluster.now.Add(-time.Minute))
		}
	})
}

// settle lets everything come to rest, with one process and a sink that is up.
func (w *world) settle() {
	w.sinkDown, w.flaky, w.dieIn = false, false, 0
	if len(w.processes) == 0 {
		w.processes = append(w.processes, w.start())
	}
	for len(w.processes) > 1 {
		w.kill(w.processes[0])
	}
	p := w.processes[0]
	for range 100_000 {
		busy := false
		for log := range 3 {
			for p.watch(log) {
				busy = true
			}
		}
		w.cluster.tick()
		for _, o := range w.store.All() {
			p.ledgered(o)
		}
		busy = p.reconcile() || busy
		busy = p.deliver() || busy
		p.flush()
		if !busy {
			return
		}
	}
	w.fail("does not come to rest: %d keys to observe, %d to deliver", len(p.queue), len(p.owed))
}

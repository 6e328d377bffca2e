// SPDX-License-Identifier: Apache-2.0

// Package sim runs the real observer, lifecycle, ledger and delivery against a
// simulated API server and sinks, with crashes between any two side effects.
//
// Nothing in it sleeps or reads a clock. A seed decides everything, so a failing history can
// be repeated.
package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// world is one run: a cluster, sinks, and the processes of the controller.
type world struct {
	rng     *rand.Rand
	store   *store.Store
	cluster *cluster
	sources []*v1alpha1.CDEventSource
	// log shows nothing, and fails the history at each error: only bugs are logged as such.
	log  *zap.SugaredLogger
	with chaos

	processes []*process
	// acting is the process that takes a step, and written is the newest transition of each entry.
	acting  *process
	written map[string]int64
	// watches are the watches of all processes, oldest first.
	watches []*watch
	// down contains the sources whose sink rejects everything.
	down map[types.UID]bool
	// flaky means that some responses of sinks are lost.
	flaky bool
	// dieIn is the number of side effects until a crash; 0 for none.
	dieIn   int
	crashes int
	effects int
	backup  *backup
	// meddler, if set, is between the processes and the store.
	meddler ledger.Client

	// cores is nil in a history of resident processes.
	cores *cores

	got      map[types.UID][]delivered
	bytes    map[string]string
	doubles  int
	problems []string
	// silent counts the writes without an event: the memory of Services from before the
	// baseline, and deletions.
	silent int
}

// watch is the time in which one process receives changes, as leader or standby.
type watch struct {
	// era and from are the log of Routes, and the position in it, at which the watch began.
	era, from int
	over      bool
}

// delivered is an event as a sink first received it.
type delivered struct {
	uid      types.UID
	typ      string
	time     time.Time
	revision string
	artifact string
	traffic  []lifecycle.Share
	urls     []string
	subject  string
	// version is that of an environment.
	version string
	// era is the one in which it was delivered.
	era int
	// known marks no event, but where a restored ledger continues, whatever was delivered since.
	known bool
}

func newWorld(seed uint64, with chaos) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 7)), store: store.New(), sources: newSources(with.sources), //nolint:gosec // a simulation must be reproducible
		bytes: map[string]string{}, got: map[types.UID][]delivered{}, down: map[types.UID]bool{}, with: with,
		written: map[string]int64{},
	}
	w.log = zap.New(loud{zapcore.NewNopCore()}, zap.Hooks(func(e zapcore.Entry) error {
		w.fail("logged as an error: %s", e.Message)
		return nil
	})).Sugar()
	// What users do is independent of what the controller does.
	w.cluster = newCluster(w.store, rand.New(rand.NewPCG(seed, 8))) //nolint:gosec // see above
	w.store.Before = func(verb, name string) error {
		w.effect(verb)
		w.overtake(name)
		return w.mishap(verb, name, "before")
	}
	w.store.After = func(verb, name string) error {
		w.effect(verb + " done")
		w.overtake(name)
		return w.mishap(verb, name, "after")
	}
	w.store.Wrote = w.wrote
	return w
}

// loud is a core that takes errors, and writes nothing.
type loud struct{ zapcore.Core }

// Enabled implements zapcore.Core.
func (loud) Enabled(l zapcore.Level) bool { return l >= zapcore.ErrorLevel }

// Check implements zapcore.Core.
func (c loud) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return ce.AddCore(e, c)
}

// mishap returns an answer of the API server that does not say whether the request was
// carried out.
func (w *world) mishap(verb, name, when string) error {
	if !w.with.errors || w.rng.IntN(40) != 0 {
		return nil
	}
	return apierrors.NewTimeoutError(fmt.Sprintf("%s of %s, %s it was done", verb, name, when), 1)
}

func (w *world) fail(format string, args ...any) {
	if len(w.problems) < 20 {
		w.problems = append(w.problems, fmt.Sprintf(format, args...))
	}
}

// effect is called around every side effect. A process may die at any of them.
func (w *world) effect(string) {
	w.effects++
	w.pause()
	if w.dieIn > 0 {
		if w.dieIn--; w.dieIn == 0 {
			// Goexit cannot be recovered, unlike a panic.
			runtime.Goexit()
		}
	}
}

// alive runs f in a process, and ends the process if f crashes it.
func (w *world) alive(p *process, f func()) {
	w.acting = p
	defer func() { w.acting = nil }()
	crashed, panicked := true, any(nil)
	var group sync.WaitGroup
	group.Go(func() {
		defer func() {
			if panicked = recover(); panicked != nil {
				crashed = false
			}
		}()
		f()
		crashed = false
	})
	group.Wait()
	if panicked != nil {
		panic(panicked)
	}
	if crashed {
		w.crashes++
		w.kill(p)
	}
}

func (w *world) kill(p *process) {
	p.cancel()
	p.ledger.Run(p.ctx, 0) // its queue ends with it
	p.watch.over = true
	p.leads = false
	w.processes = slices.DeleteFunc(w.processes, func(o *process) bool { return o == p })
}

// received records an event that a sink received.
func (w *world) received(source types.UID, ev event.Event, raw string) {
	id := string(source) + " " + ev.ID()
	if had, ok := w.bytes[id]; ok {
		w.doubles++
		if had != raw {
			w.fail("the same id with other bytes:\n%s\n%s", had, raw)
		}
		return
	}
	w.bytes[id] = raw
	var body struct {
		Subject struct {
			ID      string `json:"id"`
			Content struct {
				ArtifactID string `json:"artifactId"`
			} `json:"content"`
		} `json:"subject"`
		CustomData struct {
			Knative struct {
				UID      string            `json:"uid"`
				Traffic  []lifecycle.Share `json:"traffic"`
				URLs     []string          `json:"urls"`
				Revision struct {
					Name string `json:"name"`
				} `json:"revision"`
			} `json:"knative"`
			Environment struct {
				UID     string `json:"uid"`
				Version string `json:"version"`
				Beneath string `json:"beneath"`
			} `json:"environment"`
		} `json:"customData"`
	}
	if err := json.Unmarshal(ev.Data(), &body); err != nil {
		w.fail("an event cannot be read: %v", err)
	}
	said := body.CustomData.Knative
	d := delivered{
		uid: types.UID(said.UID), typ: ev.Type(), time: ev.Time(), revision: said.Revision.Name, traffic: said.Traffic,
		artifact: body.Subject.Content.ArtifactID, urls: said.URLs, subject: body.Subject.ID, era: w.cluster.era,
	}
	if environment := body.CustomData.Environment; environment.UID != "" {
		d.uid, d.version = types.UID(environment.UID), environment.Version
		w.receivedEnvironment(d, environment.Beneath)
	}
	w.got[source] = append(w.got[source], d)
}

// baseline is when the first controller started, by its marker.
func (w *world) baseline() time.Time {
	if o := w.store.Baseline("services"); o != nil {
		return o.CreationTimestamp.Time
	}
	return w.cluster.now.Add(time.Hour)
}

func (w *world) baselines() ledger.Baselines {
	return ledger.Baselines{Client: store.Baselines{Store: w.store}}
}

// step lets one process do one thing.
func (w *world) step(p *process) {
	w.alive(p, func() {
		switch w.rng.IntN(14) {
		case 13:
			p.environments.next()
		case 12:
			p.environments.reconcile()
		case 11:
			p.judging()
		case 9, 10:
			p.poll()
		case 8:
			if w.rng.IntN(20) == 0 {
				p.relist()
			} else {
				p.follow(1 + w.rng.IntN(8))
			}
		case 0, 1, 2:
			p.next(w.rng.IntN(logs))
		case 3, 4, 5:
			p.reconcile()
		case 6:
			p.deliver()
		case 7:
			if w.rng.IntN(2) == 0 {
				p.flush()
			}
			p.collect()
		}
	})
}

// end ends all processes of the history.
func (w *world) end() {
	for len(w.processes) > 0 {
		w.kill(w.processes[0])
	}
}

// settle runs until nothing is left to do, with one leader and healthy sinks.
func (w *world) settle() {
	w.down, w.flaky, w.dieIn, w.with.errors = map[types.UID]bool{}, false, 0, false
	if len(w.processes) == 0 {
		w.processes = append(w.processes, w.start())
	}
	for len(w.processes) > 1 {
		w.kill(w.processes[0])
	}
	p := w.processes[0]
	p.lead()
	for _, s := range w.cluster.live {
		s.split = false
	}
	w.cluster.calm()
	for range 100_000 {
		if !w.round(p) && !w.pending() {
			return
		}
	}
	w.fail("does not come to rest: %d keys to observe, %d to deliver", len(p.queue), len(p.pending))
}

// round lets a process do all work that is ready. It returns false if there is none.
func (w *world) round(p *process) bool {
	busy := false
	for log := range logs {
		for p.next(log) {
			busy = true
		}
	}
	w.cluster.tick()
	for _, key := range w.cluster.names() {
		s := w.cluster.live[key]
		p.begin(s)
		busy = busy || s.stateful && w.cluster.now.Sub(s.moved) < settles || s.planned() && w.cluster.now.Sub(s.shifted) < settles // polling continues until then
	}
	for range len(p.looks) {
		p.tell()
	}
	for p.judging() {
		busy = true
	}
	p.follow(all)
	for p.environments.next() {
		busy = true
	}
	busy = p.environments.reconcile() || busy
	busy = p.reconcile() || busy
	busy = p.deliver() || busy
	p.flush()
	return busy
}

// pending reports whether an entry has events that are pending, or were when it was written.
func (w *world) pending() bool {
	return slices.ContainsFunc(w.store.All(), func(o *v1alpha1.CDEventSubject) bool { return len(o.Status.Journal) > 0 })
}

// entry is the entry of a Service, nil if there is none.
func (w *world) entry(uid types.UID) *v1alpha1.CDEventSubject {
	return w.store.Peek(ledger.Name(v1alpha1.CDEventSubjectSpec{Kind: kindName, UID: uid}))
}

// wrote counts the writes without an event, and checks what was written.
func (w *world) wrote(o *v1alpha1.CDEventSubject, deleted bool) {
	w.judgeWritten(o)
	w.judgeWriter(o)
	if deleted || o.Status.Sequence == 0 && len(o.Status.Acknowledged) == 0 {
		w.silent++
	}
}

// judgeWriter checks that a process that does not lead journals nothing.
func (w *world) judgeWriter(o *v1alpha1.CDEventSubject) {
	before, ok := w.written[o.Name]
	if w.written[o.Name] = o.Status.Sequence; ok && o.Status.Sequence > before && w.acting != nil && !w.acting.leads {
		w.fail("%s: transition %d was journaled by a process that does not lead", o.Name, o.Status.Sequence)
	}
}

func short(typ string) string {
	for _, kind := range []string{requestedEnvironment, createdEnvironment, modifiedEnvironment, deletedEnvironment, "cluster.formed", "cluster.settled", "cluster.unsettled", "cluster.rebalanced", "cluster.removed", "detected", "resolved", "testcaserun.finished"} {
		if strings.Contains(typ, kind+".") {
			return kind
		}
	}
	for _, kind := range []string{"created", "deployed", "upgraded", "rolledback", "shifted", "removed", "published", "ready"} {
		if strings.Contains(typ, "."+kind+".") {
			return kind
		}
	}
	return typ
}

// client is what a ledger writes to.
func (w *world) client() ledger.Client { return meddling{w} }

// meddling chooses the meddler at each request.
type meddling struct{ w *world }

func (m meddling) now() ledger.Client {
	if m.w.meddler != nil {
		return m.w.meddler
	}
	return m.w.store
}

func (m meddling) Create(ctx context.Context, o *v1alpha1.CDEventSubject, opts metav1.CreateOptions) (*v1alpha1.CDEventSubject, error) {
	return m.now().Create(ctx, o, opts)
}

func (m meddling) Update(ctx context.Context, o *v1alpha1.CDEventSubject, opts metav1.UpdateOptions) (*v1alpha1.CDEventSubject, error) {
	return m.now().Update(ctx, o, opts)
}

func (m meddling) Get(ctx context.Context, name string, opts metav1.GetOptions) (*v1alpha1.CDEventSubject, error) {
	return m.now().Get(ctx, name, opts)
}

func (m meddling) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	return m.now().Delete(ctx, name, opts)
}

// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/customrun"
	"github.com/knative-cdevents/knative-cdevents/test/stage"
)

const (
	runPath    = "/apis/tekton.dev/v1beta1/namespaces/shop/customruns/cart"
	gatePath   = "/apis/knative-cdevents.dev/v1alpha1/namespaces/shop/canarygates/cart"
	recordPath = "/apis/knative-cdevents.dev/v1alpha1/namespaces/system/canarygateruns/"
	runRecord  = recordPath + "customrun-u1"
	gateRecord = recordPath + "canarygate-g1"

	schedule  = `"schedule":{"interval":"5s","warmup":"0s","minDuration":"1s"},"minimum":{"canaryRequests":100,"baselineRequests":100}`
	customRun = `{"apiVersion":"tekton.dev/v1beta1","kind":"CustomRun","metadata":{"name":"cart","namespace":"shop","uid":"u1"},"spec":
		{"customSpec":{"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"CanaryGate","spec":{"service":"cart",` + schedule + `}}}}`
	watching = `{"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"CanaryGate","metadata":{"name":"cart","namespace":"shop","uid":"g1","generation":1},"spec":{"service":"cart","watch":true,` + schedule + `}}`
)

// house is one Service, an API server, and a clock that the test controls.
type house struct {
	t *testing.T
	*apiServer
	*stage.Stage
	at   time.Time
	told []string
	// unread says that the Services of the cluster are not known yet.
	unread bool
}

func (h *house) Service(key types.NamespacedName) (*gaterun.Service, bool) {
	if h.unread {
		return nil, false
	}
	return h.Stage.Service(key)
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, apiServer: newAPIServer(t), at: time.Unix(1.8e9, 0)}
	h.Stage = stage.New(types.NamespacedName{Namespace: "shop", Name: "cart"}, true, func() time.Time { return h.at })
	return h
}

// houseClock returns the time of a house.
type houseClock struct {
	clock.RealClock
	h *house
}

func (c houseClock) Now() time.Time { return c.h.at }

// Reached implements Verdicts.
func (h *house) Reached(_ types.NamespacedName, _ types.UID, v lifecycle.Verdict) {
	h.told = append(h.told, v.Run+" "+string(v.Verdict))
}

// IsLeaderFor implements Leader.
func (*house) IsLeaderFor(key types.NamespacedName) bool { return key.Name == "cart" }

// process returns a replica that leads.
func (h *house) process() *Gate {
	h.t.Helper()
	config := &rest.Config{Host: h.URL, QPS: -1}
	ours, err := client.New(config)
	if err != nil {
		h.t.Fatal(err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		h.t.Fatal(err)
	}
	return New(Options{
		Client: ours, Namespace: "system", Runs: dyn, Services: h, Counts: h.Stage, Clock: houseClock{h: h}, Analyze: stage.Analyze,
		Leader: h, Verdicts: h,
		Stopping: make(chan struct{}), Metrics: NewMetrics(func() time.Time { return h.at }, always),
	})
}

// hear fills the caches of a process.
func (h *house) hear(g *Gate) {
	h.t.Helper()
	if raw := h.get(runPath); raw != "" {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(raw), &u.Object); err != nil {
			h.t.Fatal(err)
		}
		if err := g.runs.informer().GetIndexer().Add(u); err != nil {
			h.t.Fatal(err)
		}
	}
	if raw := h.get(gatePath); raw != "" {
		gate := &v1alpha1.CanaryGate{}
		if err := json.Unmarshal([]byte(raw), gate); err != nil {
			h.t.Fatal(err)
		}
		if err := g.gates.GetStore().Add(gate); err != nil {
			h.t.Fatal(err)
		}
	}
}

// look lets a process sync once, some seconds later; a deaf one sees no later writes.
func (h *house) look(g *Gate, deaf ...bool) {
	h.t.Helper()
	h.at = h.at.Add(6 * time.Second)
	h.Read()
	if len(deaf) == 0 {
		h.hear(g)
	}
	ctx := logging.WithLogger(context.Background(), zap.NewNop().Sugar())
	_ = (&customRuns{g}).Reconcile(ctx, "shop/cart") // the error is when to requeue
	_ = (&gates{Gate: g, written: map[string]time.Time{}}).Reconcile(ctx, "shop/cart")
}

// collect lets a process delete the records that it does not need, some minutes later.
func (h *house) collect(g *Gate) {
	h.t.Helper()
	h.at = h.at.Add(2 * recordGracePeriod)
	h.hear(g)
	if err := g.collect(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) customRun() *customrun.Run {
	h.t.Helper()
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(h.get(runPath)), &u.Object); err != nil {
		h.t.Fatal(err)
	}
	r, err := customrun.Read(u)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

func (h *house) gate() *v1alpha1.CanaryGate {
	h.t.Helper()
	gate := &v1alpha1.CanaryGate{}
	if err := json.Unmarshal([]byte(h.get(gatePath)), gate); err != nil {
		h.t.Fatal(err)
	}
	return gate
}

// says checks that the statuses contain a text and no evidence.
func (h *house) says(path, text string) {
	h.t.Helper()
	is := h.get(path)
	if !strings.Contains(is, text) {
		h.t.Fatalf("the status does not contain %q: %s", text, is)
	}
	for _, internal := range []string{`"evidence"`, `"gzip"`, `"warmup":"0s","interval"`, `"shards":[`} {
		if strings.Contains(is, internal) {
			h.t.Fatalf("the status contains %s: %s", internal, is)
		}
	}
}

func (h *house) kept(path string, want bool) {
	h.t.Helper()
	is := h.get(path)
	if (is != "") != want || want && !strings.Contains(is, `"evidence"`) {
		h.t.Fatalf("kept: %q", is)
	}
}

// kinds are both kinds of runs, each with its owner.
var kinds = map[string]struct{ path, object, record string }{
	"CustomRun":  {runPath, customRun, runRecord},
	"CanaryGate": {gatePath, watching, gateRecord},
}

func each(t *testing.T, f func(t *testing.T, h *house, path, record string)) {
	t.Helper()
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.put(t, kind.path, kind.object)
			f(t, h, kind.path, kind.record)
		})
	}
}

// The evidence of a run is in an object of ours, for as long as it is needed.
func TestEvidenceIsInRecord(t *testing.T) {
	t.Parallel()
	each(t, func(_ *testing.T, h *house, path, record string) {
		g := h.process()
		h.look(g)
		h.look(g)
		h.Serve(stage.Canary, 60, 0)
		h.look(g)
		h.says(path, "still needed, at least: 40 requests of the canary")
		h.kept(record, true)
		h.Serve(stage.Canary, 60, 0)
		h.Serve(stage.Baseline, 200, 0)
		h.look(g)
		h.says(path, `"verdict":"Pass"`)
		h.collect(g)
		h.kept(record, false)
	})
}

// The verdict of a run is not lost if its process dies before the journal has it, however long no other process leads.
func TestVerdictWaitsForALeader(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house, path, record string) {
		h.fail(h.process())
		h.says(path, `"verdict":"Fail"`)
		h.told = nil // as if the process had died
		h.at = h.at.Add(2 * reportPeriod)
		g := h.process()
		h.unread = true
		h.look(g)
		h.collect(g)
		h.kept(record, true)
		h.unread = false
		h.look(g)
		h.collect(g)
		if h.kept(record, true); len(h.told) != 1 || !strings.HasSuffix(h.told[0], " Fail") {
			t.Errorf("reported %q", h.told)
		}
		h.collect(g)
		if h.kept(record, false); len(h.told) != 1 {
			t.Errorf("reported %q", h.told)
		}
	})
}

// While Knative Serving is not installed, nothing receives verdicts. Their records are deleted after an hour.
func TestVerdictWithoutServing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house, _, record string) {
		g := h.process()
		h.at = h.at.Add(2 * reportPeriod) // it has led for long
		h.fail(h.process())
		h.told, h.unread = nil, true
		h.collect(g)
		h.kept(record, true)
		h.at = h.at.Add(reportPeriod)
		h.collect(g)
		if h.kept(record, false); len(h.told) > 0 {
			t.Errorf("reported %q", h.told)
		}
	})
}

// A gate that names another Service leaves the last verdict to the leader of the Service before.
func TestAnotherLeaderReportsTheRunBefore(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	g := h.process()
	for ago, told := range map[time.Duration]bool{time.Second: true, time.Hour: false} {
		end := metav1.NewTime(h.at.Add(-ago))
		run := &v1alpha1.GateRun{ID: "1", Service: v1alpha1.GateObject{Name: "till", UID: "uid-of-till"}, CompletionTime: &end}
		if is := g.tell("shop", run); is != told || len(h.told) > 0 {
			t.Errorf("%s ago: %v, reported %q", ago, is, h.told)
		}
	}
}

// Each run of a gate reuses the record of the previous one. A verdict that was not reported is reported first.
func TestNextRunReportsTheOneBefore(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.put(t, gatePath, watching)
	h.fail(h.process())
	first := h.gate().Status.Run.ID
	h.told = nil // as if the process had died
	h.at = h.at.Add(2 * reportPeriod)
	h.Split(20)
	g := h.process()
	h.look(g)
	h.look(g)
	if run := h.gate().Status.Run; run.ID == first || len(h.told) != 1 || h.told[0] != first+" Fail" {
		t.Errorf("run %s follows %s, reported %q", run.ID, first, h.told)
	}
	g.copied.Range(func(id, _ any) bool {
		t.Errorf("run %v is remembered, and has no record", id)
		return true
	})
}

// Whenever a process dies between two writes, the next one continues with the same evidence
// and reaches the same verdict.
func TestProcessDiesBetweenTwoWrites(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house, path, record string) {
		for look := range 4 {
			switch look {
			case 2:
				h.Serve(stage.Canary, 60, 0)
			case 3:
				h.Serve(stage.Canary, 0, 30)
			}
			h.refusing(func(asked string) bool { return strings.HasPrefix(asked, "PUT "+path) })
			h.look(h.process())
			h.refusing(nil)
			h.look(h.process()) // a new process, with only what was written
			if look == 2 {
				h.says(path, ": 60 and 0 requests")
				h.kept(record, true)
			}
		}
		h.look(h.process())
		h.says(path, `"verdict":"Fail"`)
		if len(h.told) == 0 || !strings.HasSuffix(h.told[0], " Fail") {
			t.Errorf("reported %v", h.told)
		}
		for _, told := range h.told {
			if told != h.told[0] {
				t.Errorf("reported %v", h.told)
			}
		}
		if path == runPath {
			for _, r := range h.customRun().Status.Results {
				if r.Name == "canary-requests" && r.Value != "90" {
					t.Errorf("results of %s requests", r.Value)
				}
			}
		}
		g := h.process()
		h.collect(g)
		h.kept(record, true)
		h.collect(g)
		h.kept(record, false)
	})
}

// With two leaders, neither undoes what the other has written.
func TestTwoLeaders(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house, path, record string) {
		a, b := h.process(), h.process()
		h.look(a)
		h.look(a)
		h.Serve(stage.Canary, 60, 0)
		h.look(b)
		h.says(path, ": 60 and 0 requests")
		h.Serve(stage.Canary, 0, 30)
		h.look(b)
		ended := h.get(path)
		h.says(path, `"verdict":"Fail"`)
		h.Serve(stage.Canary, 1000, 0)
		h.Serve(stage.Baseline, 1000, 0)
		for range 3 {
			h.look(a, true)
		}
		if is := h.get(path); is != ended {
			t.Errorf("before\n%s\nafter\n%s", ended, is)
		}
		h.collect(a)
		h.collect(a)
		h.kept(record, false)
	})
}

// Evidence that was deleted is collected again, and never invented.
func TestLostEvidence(t *testing.T) {
	t.Parallel()
	each(t, func(_ *testing.T, h *house, path, record string) {
		g := h.process()
		h.look(g)
		h.look(g)
		h.Serve(stage.Canary, 60, 0)
		h.look(g)
		h.remove(record)
		g = h.process()
		h.look(g)
		h.look(g)
		h.kept(record, true)
		h.says(path, ": 0 and 0 requests")
		h.Serve(stage.Canary, 100, 0)
		h.Serve(stage.Baseline, 100, 0)
		h.look(g)
		h.says(path, `"verdict":"Pass"`)
	})
}

// dropped are Services whose caches are dropped because the process ends.
type dropped chan struct{}

func (d dropped) Service(types.NamespacedName) (*gaterun.Service, bool) {
	close(d)
	return nil, true
}

// A process that ends drops its caches, which does not end a run.
func TestProcessEndsDuringASync(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house, path, record string) {
		g := h.process()
		h.look(g)
		h.look(g)
		before, kept := h.get(path), h.get(record)
		ending := make(dropped)
		last := h.process()
		last.Services, last.Stopping = ending, ending
		h.look(last)
		if is := h.get(path) + h.get(record); is != before+kept {
			t.Errorf("before\n%s\n%s\nafter\n%s", before, kept, is)
		}
	})
}

// Records are deleted with their owners, even if an owner was deleted or recreated while no
// process watched.
func TestRecordsAreDeletedWithTheirOwners(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house, path, record string) {
		g := h.process()
		h.look(g)
		h.look(g)
		sweep := func(g *Gate) {
			t.Helper()
			if err := g.collect(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		h.at = h.at.Add(2 * recordGracePeriod)
		h.hear(g)
		sweep(g)
		h.kept(record, true) // it is in progress
		elsewhere := h.process()
		elsewhere.Leader = never
		again := strings.NewReplacer(`"u1"`, `"u2"`, `"g1"`, `"g2"`).Replace(kinds[map[bool]string{true: "CustomRun", false: "CanaryGate"}[path == runPath]].object)
		h.remove(path)
		sweep(g) // which has it in its cache: the kind may not be served for the moment
		if is := h.get(record); is == "" || strings.Contains(is, `"completionTime"`) {
			t.Errorf("the run has ended: %q", is)
		}
		h.put(t, path, again)
		sweep(elsewhere)
		h.kept(record, true)
		g = h.process()
		sweep(g)
		if is := h.get(record); !strings.Contains(is, `"reasons":["Cancelled"]`) {
			t.Errorf("the run has not ended: %s", is)
		}
		h.at = h.at.Add(2 * recordGracePeriod)
		sweep(g)
		if h.kept(record, false); len(h.told) != 1 || !strings.HasSuffix(h.told[0], " Inconclusive") {
			t.Errorf("reported %q", h.told)
		}
	})
}

// A run whose record cannot be written yet is not lost: the CRD CanaryGateRun is missing.
func TestNoRunWithoutRecord(t *testing.T) {
	t.Parallel()
	each(t, func(_ *testing.T, h *house, path, record string) {
		h.refusing(func(asked string) bool {
			return strings.Contains(asked, "canarygateruns") && !strings.HasPrefix(asked, "GET ")
		})
		g := h.process()
		h.look(g)
		h.look(g)
		h.kept(record, false)
		if is := h.get(path); strings.Contains(is, "Judging") {
			h.t.Errorf("the status shows a run that is not stored: %s", is)
		}
		h.refusing(nil)
		h.look(g)
		h.look(g)
		h.kept(record, true)
	})
}

// SPDX-License-Identifier: Apache-2.0

package gaterun_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/stage"
)

var cart = types.NamespacedName{Namespace: "shop", Name: "cart"}

// play is a run for a Service, with a fake clock.
type play struct {
	*stage.Stage
	t   *testing.T
	now time.Time
	run *v1alpha1.GateRun
	// judges replaces the simple judge if it is set.
	judges gaterun.Analyze
	// asks answers queries; nil if there are none.
	asks *prometheus
	// failed is why the last step panicked.
	failed error
}

func begin(t *testing.T, stateful bool, spec v1alpha1.CanaryGateSpec, limit time.Duration) *play {
	t.Helper()
	p := &play{t: t, now: time.Unix(1.8e9, 0), judges: stage.Analyze}
	p.Stage = stage.New(cart, stateful, func() time.Time { return p.now })
	spec.Service = cart.Name
	opened, err := gaterun.Open(t.Context(), gaterun.Opening{Namespace: cart.Namespace, ID: "run-1", Spec: &spec, Start: p.now, Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	p.run = opened.GateRun
	return p
}

// step continues from the stored run, as another process would.
func (p *play) step() *play {
	p.t.Helper()
	content, err := json.Marshal(p.run)
	if err != nil {
		p.t.Fatal(err)
	}
	read := &v1alpha1.GateRun{}
	if err := json.Unmarshal(content, read); err != nil {
		p.t.Fatal(err)
	}
	run, err := gaterun.Resume(p.t.Context(), cart.Namespace, read)
	if err != nil {
		p.t.Fatal(err)
	}
	m := gaterun.Moment{Now: p.now, Counts: p.Stage, Analyze: p.judges}
	m.Service, m.Known = p.Service(cart)
	if p.asks != nil {
		m.Readings = p.asks.answer(p.t, run.Questions())
	}
	p.failed = run.Step(m)
	p.run = run.GateRun
	return p
}

func (p *play) pass(d time.Duration) *play {
	p.now = p.now.Add(d)
	return p
}

func (p *play) want(v verdict.Verdict, reason, message string) {
	p.t.Helper()
	if p.run.Verdict != v || reason != "" && !slices.Contains(p.run.Reasons, reason) || !strings.Contains(p.run.Message, message) {
		p.t.Fatalf("got %s %q: %s; want %s %s: %s", p.run.Verdict, p.run.Reasons, p.run.Message, v, reason, message)
	}
	if over := p.run.CompletionTime != nil; over != (v != verdict.Running) {
		p.t.Fatalf("%s, and over: %v", v, over)
	}
}

func TestFromSplitToVerdict(t *testing.T) {
	t.Parallel()
	for _, stateful := range []bool{false, true} {
		p := begin(t, stateful, v1alpha1.CanaryGateSpec{}, 0)
		p.Serve(stage.Canary, 5000, 5000) // before the run
		p.step().want(verdict.Running, "", "no requests have been counted yet")
		if p.run.Canary != (v1alpha1.GateObject{Name: "cart-00002", UID: stage.Canary}) || p.run.Baseline.UID != stage.Baseline || gaterun.SplitOf(p.run).String() != "90 % cart-00001, 10 % cart-00002" {
			t.Errorf("frozen: %+v", p.run)
		}
		p.Serve(stage.Canary, 200, 1)
		p.Serve(stage.Baseline, 250, 0)
		p.pass(15*time.Second).step().want(verdict.Running, "", "201 and 250 requests; still needed, at least: 99 requests of the canary, 50 requests of the baseline")
		p.Serve(stage.Canary, 100, 0)
		p.Serve(stage.Baseline, 250, 0)
		p.pass(15*time.Second).step().want(verdict.Pass, "NonInferior", "no worse")
		if j := p.run.Report; j == nil || j.Canary.Requests != 301 || p.run.Evidence == nil || strings.Contains(string(p.run.Evidence.Raw), "run") {
			t.Errorf("%+v, evidence %v", j, p.run.Evidence)
		}
		over := p.run.DeepCopy()
		p.Serve(stage.Canary, 0, 500)
		if p.pass(time.Hour).step(); p.run.Verdict != over.Verdict || !p.run.CompletionTime.Equal(over.CompletionTime) {
			t.Error("a run that is over went on")
		}
	}
}

func TestWaitingMessages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before               func(*play)
		says, reason, at2m   string
		verdict              verdict.Verdict
		deadline, atDeadline string
	}{
		"no Service":    {func(p *play) { p.Key.Name = "other" }, `Knative Service "cart" does not exist`, gaterun.ServiceNotFound, "cannot", verdict.Error, "", ""},
		"no split":      {func(p *play) { p.Split(0) }, "goes to cart-00001 (100 %)", gaterun.RevisionNotInSplit, "", verdict.Error, "", ""},
		"not the named": {func(p *play) { p.Change(func(s *gaterun.Service) { s.Traffic[1].Revision = "other" }) }, "gets no traffic", gaterun.RevisionNotInSplit, "", verdict.Error, "", ""},
		"not effective": {func(p *play) { p.Change(func(s *gaterun.Service) { s.Effective = false }) }, "has settled|Route is not Ready", "", "Route is not Ready", verdict.Running, "", ""},
		"Services":      {func(p *play) { p.Forget(true) }, "until the controller has read the Knative Services", "", "", verdict.Running, "", ""},
		"pods not read": {func(p *play) { p.Unread() }, "until the pods of Service", "", "", verdict.Running, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := begin(t, false, v1alpha1.CanaryGateSpec{Canary: "cart-00002"}, 0)
			c.before(p)
			p.step().want(verdict.Running, "", "")
			if !slices.ContainsFunc(strings.Split(c.says, "|"), func(s string) bool { return strings.Contains(p.run.Message, s) }) {
				t.Errorf("says %q", p.run.Message)
			}
			p.pass(2*time.Minute).step().want(c.verdict, c.reason, "")
			if c.verdict != verdict.Running {
				return
			}
			p.pass(28*time.Minute).step().want(verdict.Inconclusive, string(verdict.NoData), "Nothing was measured")
		})
	}
}

// A run that only waits for the warm-up, or whose pods are scraped too late, has no time left.
func TestNoTimeIsLeft(t *testing.T) {
	t.Parallel()
	warmup := &v1alpha1.GateSchedule{Warmup: &v1alpha1.Duration{Duration: 30 * time.Second}}
	p := begin(t, true, v1alpha1.CanaryGateSpec{GatePolicy: v1alpha1.GatePolicy{Schedule: warmup}}, time.Minute)
	p.judges = (*judge.Run).Analyze
	p.step().pass(15*time.Second).step().want(verdict.Inconclusive, string(verdict.Timeout), "the warm-up takes 30s")
	q := begin(t, true, v1alpha1.CanaryGateSpec{}, 0)
	q.judges = (*judge.Run).Analyze
	q.Unread()
	q.step().pass(29*time.Minute + 40*time.Second)
	q.Process()
	q.step().pass(15*time.Second).step().want(verdict.Inconclusive, string(verdict.Timeout), "the deadline came 20s after the first scrape")
}

// An interval that is longer than the remaining time does not delay the end.
func TestDeadlineIsKept(t *testing.T) {
	t.Parallel()
	hour := &v1alpha1.Duration{Duration: time.Hour}
	p := begin(t, true, v1alpha1.CanaryGateSpec{GatePolicy: v1alpha1.GatePolicy{Schedule: &v1alpha1.GateSchedule{Interval: hour, Timeout: &v1alpha1.Duration{Duration: 90 * time.Minute}}}}, 0)
	for _, want := range []time.Duration{time.Hour, 90 * time.Minute} {
		p.step()
		at, err := gaterun.Resume(t.Context(), cart.Namespace, p.run)
		if err != nil {
			t.Fatal(err)
		}
		due := at.Due()
		if is := due.Sub(p.run.StartTime.Time); is != want || at.Wait(p.now) != due.Sub(p.now) {
			t.Errorf("due after %s, waits %s; want %s", is, at.Wait(p.now), want)
		}
		p.Serve(stage.Canary, 1, 0)
		p.now = due
	}
	p.step().want(verdict.Inconclusive, string(verdict.Timeout), "")
}

func TestRunWaitsForThePendingSplit(t *testing.T) {
	t.Parallel()
	p := begin(t, false, v1alpha1.CanaryGateSpec{}, 0)
	p.Change(func(s *gaterun.Service) { s.Settled = false })
	p.step().want(verdict.Running, "", "has settled")
	p.Split(50)
	p.Change(func(s *gaterun.Service) { s.Settled = true })
	if p.pass(2 * time.Second).step(); gaterun.SplitOf(p.run).Percent("cart-00002") != 50 {
		t.Errorf("judges %v", p.run.Split)
	}
	q := begin(t, false, v1alpha1.CanaryGateSpec{}, 0)
	q.Change(func(s *gaterun.Service) { s.Settled = false })
	if q.step().pass(30 * time.Second).step(); q.run.Canary.Name == "" {
		t.Error("a Service that never settles is never judged")
	}
}

func TestSuperseded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change       func(*play)
		reason, says string
	}{
		"other percentages": {func(p *play) { p.Split(50) }, gaterun.SplitChanged, "(90 %), cart-00002 (10 %) when the run began"},
		"all to one":        {func(p *play) { p.Split(100) }, gaterun.SplitChanged, "now goes to cart-00002 (100 %)"},
		"a third": {func(p *play) {
			p.Change(func(s *gaterun.Service) {
				s.Revisions["cart-00003"] = &lifecycle.Revision{Name: "cart-00003", UID: "uid-3"}
				s.Traffic = append(s.Traffic, lifecycle.Share{Revision: "cart-00003", Percent: 5})
			})
		}, gaterun.SplitChanged, "cart-00003"},
		"Service made again": {func(p *play) { p.Change(func(s *gaterun.Service) { s.UID = "another" }) }, gaterun.ServiceGone, "deleted and created again"},
		"Revision made again": {func(p *play) {
			p.Change(func(s *gaterun.Service) {
				s.Revisions["cart-00002"] = &lifecycle.Revision{Name: "cart-00002", UID: "another"}
			})
		}, gaterun.RevisionGone, "no longer exists"},
		"Service gone": {func(p *play) { p.Key.Name = "other" }, gaterun.ServiceGone, "no longer exists"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := begin(t, false, v1alpha1.CanaryGateSpec{}, 0)
			p.step()
			c.change(p)
			p.pass(15*time.Second).step().want(verdict.Superseded, c.reason, c.says)
		})
	}
	t.Run("not", func(t *testing.T) {
		t.Parallel()
		p := begin(t, false, v1alpha1.CanaryGateSpec{}, 0)
		p.step()
		p.Change(func(s *gaterun.Service) { s.Effective, s.Traffic[1].Percent = false, 50 })
		p.pass(15*time.Second).step().want(verdict.Running, "", "")
		p.Change(func(s *gaterun.Service) { s.Effective, s.Rollout, s.Traffic[0].Percent = true, true, 50 })
		p.pass(15*time.Second).step().want(verdict.Running, "", "")
	})
}

// TestPanicEndsOnlyItsRun: whoever continued a run that panics would panic as well, and end the gates and events of all.
func TestPanicEndsOnlyItsRun(t *testing.T) {
	t.Parallel()
	p := begin(t, false, v1alpha1.CanaryGateSpec{}, 0)
	p.step()
	p.judges = func(*judge.Run, judge.Plan, judge.Window) verdict.Judgement { panic("an index out of range") }
	p.Serve(stage.Canary, 12, 0)
	p.pass(15*time.Second).step().want(verdict.Error, gaterun.InternalError, "please report it: an index out of range")
	var problem *gaterun.ProblemError
	if !errors.As(p.failed, &problem) || !strings.Contains(problem.Stack, "TestPanicEndsOnlyItsRun") {
		t.Errorf("the error does not say where: %+v", p.failed)
	}
	p.judges = stage.Analyze
	if p.pass(time.Hour).step().want(verdict.Error, gaterun.InternalError, ""); p.failed != nil {
		t.Errorf("a run that is over went on: %v", p.failed)
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ limit, want time.Duration }{
		{0, 30 * time.Minute}, {time.Hour, 30 * time.Minute}, {10 * time.Minute, 9*time.Minute + 30*time.Second}, {20 * time.Second, 10 * time.Second},
	} {
		p := begin(t, false, v1alpha1.CanaryGateSpec{}, c.limit)
		if got := p.run.Deadline.Sub(p.run.StartTime.Time); got != c.want {
			t.Errorf("within %s: %s, want %s", c.limit, got, c.want)
		}
	}
	p := begin(t, false, v1alpha1.CanaryGateSpec{}, 0)
	p.step()
	p.Serve(stage.Canary, 12, 0)
	p.pass(time.Minute).step()
	p.Unread()
	p.pass(30*time.Minute).step().want(verdict.Inconclusive, string(verdict.Timeout), "288 requests of the canary")
}

// An analysis of an empty window changes nothing, so nothing is written.
func TestQuietLooksAreNotWritten(t *testing.T) {
	t.Parallel()
	p := begin(t, true, v1alpha1.CanaryGateSpec{}, 0)
	p.step()
	p.Serve(stage.Canary, 12, 0)
	p.pass(15 * time.Second).step()
	was, _ := json.Marshal(p.run)
	p.pass(15 * time.Second).step()
	if is, _ := json.Marshal(p.run); string(was) != string(is) {
		t.Errorf("from %s\nto %s", was, is)
	}
}

// However often and whenever the process changes, the final evidence is what happened.
func TestEvidenceOutlivesProcesses(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		minimum := int64(1e9)
		p := begin(t, seed%2 == 0, v1alpha1.CanaryGateSpec{GatePolicy: v1alpha1.GatePolicy{Minimum: &v1alpha1.GateMinimum{CanaryRequests: &minimum}}}, 0)
		p.Serve(stage.Canary, float64(rng.IntN(100)), 0)
		p.step()
		truth := int64(0)
		for range 60 {
			if n := float64(rng.IntN(40)); rng.IntN(2) == 0 {
				p.Serve(stage.Canary, n, 0)
				truth += int64(n)
			}
			p.pass(time.Duration(rng.IntN(20)) * time.Second)
			switch rng.IntN(6) {
			case 0:
				p.Process()
			case 1, 2:
				p.step()
			}
		}
		p.step()
		if j := p.run.Report; j == nil || j.Canary.Requests != truth {
			t.Fatalf("seed %d: judged %+v of %v requests", seed, j, truth)
		}
	}
}

func TestEvidenceIsBounded(t *testing.T) {
	t.Parallel()
	p := begin(t, true, v1alpha1.CanaryGateSpec{}, 0)
	p.step()
	p.run.Evidence.Raw = []byte(`{"at":"2026-01-01T00:00:00Z"}`)
	if _, err := gaterun.Resume(p.t.Context(), cart.Namespace, p.run); err == nil {
		t.Error("evidence without a run was taken")
	}
	for _, raw := range []string{"[", `{"gzip":"eA=="}`, `{"run":{},"from":"x"}`} {
		p.run.Evidence.Raw = []byte(raw)
		got, err := gaterun.Resume(p.t.Context(), cart.Namespace, p.run)
		if err == nil {
			t.Fatalf("%s was taken", raw)
		}
		if got.Fail(p.now, err); got.GateRun.Verdict != verdict.Error || got.GateRun.Reasons[0] != gaterun.EvidenceUnreadable {
			t.Errorf("%s: %+v", raw, got.GateRun)
		}
	}
}

func TestWhenAGateCalls(t *testing.T) {
	t.Parallel()
	p := begin(t, false, v1alpha1.CanaryGateSpec{}, 0)
	s, _ := p.Service(cart)
	over := p.step().run.DeepCopy()
	at := over.StartTime
	over.CompletionTime = &at
	ended := over.DeepCopy()
	ended.SplitEndTime = &at
	names := func(canary, baseline string) v1alpha1.CanaryGateSpec {
		return v1alpha1.CanaryGateSpec{Service: cart.Name, Canary: canary, Baseline: baseline}
	}
	for name, c := range map[string]struct {
		last   *v1alpha1.GateRun
		change func(*gaterun.Service)
		spec   v1alpha1.CanaryGateSpec
		want   bool
	}{
		"the first split":            {nil, nil, names("", ""), true},
		"under way":                  {p.run, nil, names("", ""), false},
		"judged already":             {over, nil, names("", ""), false},
		"it went and came again":     {ended, nil, names("", ""), true},
		"other percentages":          {over, func(s *gaterun.Service) { s.Traffic[0].Percent, s.Traffic[1].Percent = 50, 50 }, names("", ""), true},
		"a step of the same rollout": {over, func(s *gaterun.Service) { s.Rollout, s.Traffic[1].Percent = true, 50 }, names("", ""), false},
		"no split":                   {over, func(s *gaterun.Service) { s.Traffic = s.Traffic[:1] }, names("", ""), false},
		"not in force":               {nil, func(s *gaterun.Service) { s.Effective = false }, names("", ""), false},
		"deleted and created again":  {over, func(s *gaterun.Service) { s.UID = "x" }, names("", ""), true},
		"named as they were":         {over, nil, names("cart-00002", "cart-00001"), false},
		"the other way round":        {over, nil, names("cart-00001", ""), true},
		"during a rollout":           {over, func(s *gaterun.Service) { s.Rollout = true }, names("cart-00001", ""), false},
		"nothing to compare":         {ended, nil, names("cart-00003", ""), false},
		"another Service":            {over, nil, v1alpha1.CanaryGateSpec{Service: "till"}, true},
	} {
		is := *s
		is.Traffic = slices.Clone(s.Traffic)
		if c.change != nil {
			c.change(&is)
		}
		if got := gaterun.ShouldOpen(c.last, &c.spec, &is); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	spec := names("", "")
	if gaterun.ShouldOpen(nil, &spec, nil) {
		t.Error("without a Service")
	}
}

// A run no longer stands for its split once that has ended, but it does while the Route is being changed.
func TestSplitEnds(t *testing.T) {
	t.Parallel()
	p := begin(t, false, v1alpha1.CanaryGateSpec{}, 0)
	s, _ := p.Service(cart)
	over := p.step().run
	at := over.StartTime
	over.CompletionTime = &at
	for name, c := range map[string]struct {
		name   string
		change func(*gaterun.Service)
		want   bool
	}{
		"in force":                {cart.Name, func(*gaterun.Service) {}, false},
		"other percentages":       {cart.Name, func(s *gaterun.Service) { s.Traffic[1].Percent = 50 }, true},
		"a step of its rollout":   {cart.Name, func(s *gaterun.Service) { s.Rollout, s.Traffic[1].Percent = true, 50 }, false},
		"all to one":              {cart.Name, func(s *gaterun.Service) { s.Traffic = s.Traffic[:1] }, true},
		"a Route that is changed": {cart.Name, func(s *gaterun.Service) { s.Effective, s.Traffic[1].Percent = false, 50 }, false},
		"another Revision":        {cart.Name, func(s *gaterun.Service) { delete(s.Revisions, "cart-00002") }, true},
		"another Service":         {"till", func(*gaterun.Service) {}, true},
		"created again":           {cart.Name, func(s *gaterun.Service) { s.UID = "x" }, true},
	} {
		is, run := *s, over.DeepCopy()
		is.Traffic, is.Revisions = slices.Clone(s.Traffic), maps.Clone(s.Revisions)
		c.change(&is)
		if gaterun.NoteSplit(run, c.name, &is, p.now); (run.SplitEndTime != nil) != c.want {
			t.Errorf("%s: %v", name, run.SplitEndTime)
		}
		if gaterun.NoteSplit(run, cart.Name, s, p.now.Add(time.Minute)); c.want != run.SplitEndTime.Equal(&metav1.Time{Time: p.now}) {
			t.Errorf("%s, and then as before: %v", name, run.SplitEndTime)
		}
	}
	if gaterun.NoteSplit(over, cart.Name, nil, p.now); over.SplitEndTime == nil {
		t.Error("without a Service")
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	existing := map[string]*lifecycle.Revision{}
	for n := range int64(4) {
		existing[fmt.Sprint("r", n)] = &lifecycle.Revision{Name: fmt.Sprint("r", n), UID: types.UID(fmt.Sprint(n)), Generation: n}
	}
	for name, c := range map[string]struct {
		percent          map[string]int64
		canary, baseline string
		want, reason     string
	}{
		"newest and largest":   {map[string]int64{"r1": 30, "r2": 60, "r3": 10}, "", "", "r3 r2", ""},
		"an old one at large":  {map[string]int64{"r1": 10, "r2": 90}, "", "", "r2 r1", ""},
		"a draw":               {map[string]int64{"r1": 45, "r2": 45, "r3": 10}, "", "", "r3 r2", ""},
		"named canary":         {map[string]int64{"r1": 30, "r2": 60, "r3": 10}, "r1", "", "r1 r2", ""},
		"named baseline":       {map[string]int64{"r1": 30, "r2": 60, "r3": 10}, "", "r1", "r3 r1", ""},
		"newer without a part": {map[string]int64{"r1": 90, "r2": 10, "r3": 0}, "", "", "r2 r1", ""},
		"named without a part": {map[string]int64{"r1": 90, "r2": 10, "r3": 0}, "r3", "", "", gaterun.RevisionNotInSplit},
		"the newest as base":   {map[string]int64{"r1": 90, "r2": 10}, "", "r2", "", gaterun.SameRevision},
		"one alone":            {map[string]int64{"r1": 100, "r2": 0}, "", "", "", gaterun.NoSplit},
	} {
		s := &gaterun.Service{Route: lifecycle.Route{Effective: true, Traffic: lifecycle.SplitOf(c.percent)}, Revisions: existing}
		got, p := gaterun.Choose("cart", s, c.canary, c.baseline)
		switch {
		case p != nil && p.Reason != c.reason, p == nil && got.Canary.Name+" "+got.Baseline.Name != c.want:
			t.Errorf("%s: %+v, %v", name, got, p)
		}
	}
}

// The real judge reaches the same result through the stored state.
func TestWithTheJudgeItself(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bad  float64
		want verdict.Verdict
	}{"a good canary": {0, verdict.Pass}, "a bad one": {40, verdict.Fail}} {
		p := begin(t, false, v1alpha1.CanaryGateSpec{}, 0)
		p.judges = (*judge.Run).Analyze
		for range 60 {
			p.pass(15 * time.Second).step()
			if p.run.CompletionTime != nil {
				break
			}
			p.Serve(stage.Canary, 200-c.bad, c.bad)
			p.Serve(stage.Baseline, 1800, 0)
		}
		if p.run.Verdict != c.want || p.run.Report == nil {
			t.Errorf("%s: %s %q: %s", name, p.run.Verdict, p.run.Reasons, p.run.Message)
		}
	}
}

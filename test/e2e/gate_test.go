// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// quick is a gate that decides in seconds. The defaults take minutes, and suit production traffic.
const quick = `{"spec": {
	"schedule": {"warmup": "5s", "interval": "5s", "minDuration": "15s", "timeout": "3m"},
	"minimum": {"canaryRequests": 50, "baselineRequests": 50, "shards": 2},
	"exposure": {"minRatio": 0.1, "maxRatio": 10, "tooHigh": "Warn", "tooLow": "Warn"},
	"metrics": [{"type": "ErrorRate", "limit": 0.2, "negligible": 0.05}]}}`

// receivesOnly waits until the sink has an event of one type, and fails if it has one of the other.
func (s *scene) receivesOnly(want, never string) {
	s.Helper()
	s.sink.atLeast(s.T, []string{want}, typed(want))
	all, err := s.sink.events(s.Context())
	s.must(err)
	if slices.Contains(typesOf(all), never) {
		s.Errorf("received %q", typesOf(all))
	}
}

// release deploys the sharded application and a second Revision, and sends requests until the test ends. It returns the
// second Revision's rollout.
func (s *scene) release(env map[string]string) string {
	s.Helper()
	ctx := s.Context()
	s.flow()
	s.gate(quick)
	s.source("plain", service("sink"))
	image, err := suite.Carts.ShardedImage(ctx)
	s.must(err)
	app := suite.Carts.Sharded(s.ns, image)
	s.must(suite.Carts.Deploy(ctx, app))
	s.takePart()
	s.Cleanup(s.sendTo(app))
	s.must(suite.Carts.ReleaseCanary(ctx, app, env))
	return s.started(app.Canary())
}

// TestTektonStopsABadCanary: a canary that fails a fifth of what it handles, wherever it entered, loses its traffic.
func TestTektonStopsABadCanary(t *testing.T) {
	sideBySide(t)
	s := newScene(t)
	run := s.release(map[string]string{"FAIL_RATE": "0.2"})
	s.ended(run, corev1.ConditionFalse, "1=100")
	gate := s.await(customRuns, run, "gate-10", done)
	if value(gate.Status.Results, "verdict") != "Fail" {
		t.Errorf("the verdict: %s", gate)
	}
	s.receivesOnly(rolledBack, upgraded)
}

// TestTektonPromotesAGoodCanary also kills the controller: the run continues with the same evidence.
func TestTektonPromotesAGoodCanary(t *testing.T) {
	s := newScene(t)
	run := s.release(map[string]string{"VERSION": "two"})
	s.await(customRuns, run, "gate-10", exists)
	time.Sleep(10 * time.Second) // until it has evidence
	s.must(suite.Controller.Restart(t.Context()))
	s.must(suite.Controller.WaitLeader(t.Context()))
	s.ended(run, corev1.ConditionTrue, "2=100")
	for _, name := range []string{"gate-10", "gate-50"} {
		gate := s.await(customRuns, run, name, done)
		if verdict := value(gate.Status.Results, "verdict"); verdict != "Pass" && verdict != "Warn" {
			t.Errorf("the verdict: %s", gate)
		}
	}
	s.receivesOnly(upgraded, rolledBack)
}

// begins is enough for two Tasks to run and a gate to start, even on a busy machine.
const begins = "75s"

// trial is a rollout that is started by hand and must end at its first gate.
type trial struct {
	name   string
	change func(*unstructured.Unstructured)
	// meanwhile is called once the gate's run exists.
	meanwhile func(s *scene, run string)
	// reason is that of the gate's run; any if it is empty. split is the final one.
	reason, split string
}

// TestTektonGateAnswers covers the ways in which a gate ends without a Pass.
func TestTektonGateAnswers(t *testing.T) {
	s := newScene(t)
	s.flow()
	s.gate(`{"spec": {"schedule": {"warmup": "5s", "interval": "5s", "minDuration": "15s", "timeout": "25s"}}}`)
	s.deploy("cart")
	s.takePart()
	// There is no traffic, and an event starts the rollout.
	run := s.started(s.second())
	s.ended(run, corev1.ConditionFalse, "1=100")
	gate := s.await(customRuns, run, "gate-10", done)
	if verdict := value(gate.Status.Results, "verdict"); verdict != "Inconclusive" || value(gate.Status.Results, "canary-requests") != "0" {
		t.Errorf("without traffic: %s", gate)
	}
	// The report gives the number of missing samples.
	if report := value(gate.Status.Results, "report"); !strings.ContainsAny(report, "123456789") {
		t.Errorf("it does not say how many samples were missing: %s", report)
	}

	s.gate(`{"spec": {"schedule": {"timeout": "10m"}}}`)
	for _, c := range []trial{
		{
			name: "cancelled", meanwhile: func(s *scene, run string) { s.ask(run, "CancelledRunFinally") },
			reason: "CustomRunCancelled", split: "1=100",
		},
		{
			name: "timed out", change: func(run *unstructured.Unstructured) { setTimeout(run, begins) },
			reason: "CustomRunCancelled", split: "1=100",
		},
		{
			name: "the controller is away", change: func(run *unstructured.Unstructured) { setTimeout(run, begins) },
			meanwhile: func(s *scene, _ string) {
				s.must(suite.Controller.Scale(s.Context(), 0))
				time.Sleep(90 * time.Second) // longer than the timeout
				s.split("1=90,2=10")
				s.must(suite.Controller.Scale(s.Context(), 1))
			},
			reason: "CustomRunCancelled", split: "1=100",
		},
		{
			// The split under judgement is gone, by a user's decision.
			name: "superseded", meanwhile: func(s *scene, _ string) {
				s.must(suite.Services.PatchTraffic(s.Context(), s.ns, "cart", `[{"revisionName":"cart-00001","percent":70},{"revisionName":"cart-00002","percent":30}]`))
			},
			reason: "GateSuperseded", split: "1=70,2=30",
		},
	} {
		if c.change == nil {
			c.change = func(*unstructured.Unstructured) {}
		}
		t.Logf("%s", c.name)
		run := s.again(c.change)
		s.await(customRuns, run, "gate-10", exists)
		if c.meanwhile != nil {
			c.meanwhile(s, run)
		}
		s.ended(run, corev1.ConditionFalse, c.split)
		gate := s.await(customRuns, run, "gate-10", done)
		status, reason := gate.succeeded()
		if status != corev1.ConditionFalse || c.reason != "" && reason != c.reason {
			t.Errorf("%s: the gate ended as %s", c.name, gate)
		}
	}
}

func setTimeout(run *unstructured.Unstructured, tasks string) {
	if err := unstructured.SetNestedField(run.Object, tasks, "spec", "timeouts", "tasks"); err != nil {
		panic(err) // our own manifest
	}
}

// TestTektonCancelAfterTheEnd cancels a rollout whose first gate has passed. Tekton marks that run as cancelled too,
// but its status must not change.
func TestTektonCancelAfterTheEnd(t *testing.T) {
	sideBySide(t)
	s := newScene(t)
	s.flow()
	s.gate(quick)
	s.deploy("cart")
	s.takePart()
	stop := s.send()
	run := s.started(s.second())
	before := s.await(customRuns, run, "gate-10", done)
	s.await(customRuns, run, "gate-50", exists)
	s.ask(run, "CancelledRunFinally")
	s.ended(run, corev1.ConditionFalse, "1=100")
	t.Logf("%d requests were answered", stop())
	after := s.await(customRuns, run, "gate-10", func(r ran) bool { return r.Spec.Status == "RunCancelled" })
	if compact(after.Status) != compact(before.Status) {
		t.Errorf("the status changed from\n%s to\n%s", compact(before.Status), compact(after.Status))
	}
}

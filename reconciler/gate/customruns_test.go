// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/customrun"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
	"github.com/knative-cdevents/knative-cdevents/test/stage"
)

const (
	yes = corev1.ConditionTrue
	no  = corev1.ConditionFalse
)

// TestCustomRuns checks the contract with Tekton against a real API server with Tekton's
// own CRD.
func TestCustomRuns(t *testing.T) {
	cp := controlplane.Start(t)
	th := open(t, cp)
	stop := th.process()
	t.Cleanup(func() { stop() })
	time.Sleep(200 * time.Millisecond) // the kind appears late
	must(t, cp.InstallCustomRuns(t.Context()))

	th.act("pass", func(t *testing.T) {
		s := th.service("good")
		th.ask("good", embedded("good", ""))
		th.judging("good")
		s.Serve(stage.Canary, 60, 0)
		s.Serve(stage.Baseline, 200, 1)
		r := th.until("good", func(r *customrun.Run) bool {
			return strings.Contains(message(r), "still needed, at least: 40 requests of the canary")
		})
		if c := r.Status.GetCondition("Succeeded"); c.Status != corev1.ConditionUnknown || c.Reason != customrun.Running {
			t.Errorf("while it runs: %+v", c)
		}
		s.Serve(stage.Canary, 60, 0)
		r = th.ends("good", yes, customrun.GatePassed, "Pass", "no worse")
		run, err := r.Status.GateRun()
		if err != nil || run.Canary.Name != "good-00002" || run.Evidence != nil {
			t.Fatalf("%+v, %v", run, err)
		}
		// The run is reported after the status is written.
		for range 100 {
			if th.heard(run.ID) != "" {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if told := th.heard(run.ID); told != "good uid-of-good Pass" {
			t.Errorf("reported %q", told)
		}
		// Cancelling a completed run does not change its status.
		th.cancel("good")
		time.Sleep(300 * time.Millisecond)
		after := th.read("good")
		if c := after.Status.GetCondition("Succeeded"); c.Status != yes || !after.Status.CompletionTime.Equal(r.Status.CompletionTime) || after.Status.ObservedGeneration != r.Status.ObservedGeneration {
			t.Errorf("after the cancel: %+v", after.Status)
		}
	})
	th.act("fail, by reference", func(t *testing.T) {
		s := th.service("bad")
		_, err := th.gates.Create(t.Context(), &v1alpha1.CanaryGate{ObjectMeta: metav1.ObjectMeta{Name: "strict"}, Spec: v1alpha1.CanaryGateSpec{Service: "ignored"}}, metav1.CreateOptions{})
		must(t, err)
		th.ask("bad", `{"customRef":{"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"CanaryGate","name":"strict"},"params":[{"name":"service","value":"bad"},{"name":"baseline","value":""}]}`)
		th.judging("bad")
		s.Serve(stage.Canary, 5, 20)
		th.ends("bad", no, customrun.GateFailed, "Fail", "the canary fails")
	})
	th.act("a dry run stops nothing", func(*testing.T) {
		s := th.service("dry")
		th.ask("dry", embedded("dry", `,"params":[{"name":"dry-run","value":"true"}]`))
		th.judging("dry")
		s.Serve(stage.Canary, 5, 20)
		th.ends("dry", yes, customrun.GateDryRun, "Fail", "the canary fails")
	})
	th.act("no traffic is inconclusive", func(*testing.T) {
		s := th.service("idle")
		th.ask("idle", embedded("idle", `,"params":[{"name":"timeout","value":"30s"}]`))
		th.judging("idle")
		s.Serve(stage.Canary, 3, 0)
		th.ends("idle", no, customrun.GateUndecided, "Inconclusive", "")
	})
	th.act("fail-on", func(*testing.T) {
		th.service("lenient")
		th.ask("lenient", embedded("lenient", `,"params":[{"name":"timeout","value":"20s"},{"name":"fail-on","value":"Fail, Error"}]`))
		th.ends("lenient", yes, customrun.GateUndecided, "Inconclusive", "")
	})
	th.act("cancel", func(*testing.T) {
		th.service("cancelled")
		th.ask("cancelled", embedded("cancelled", `,"retries":2`))
		th.judging("cancelled")
		th.cancel("cancelled")
		th.ends("cancelled", no, customrun.Cancelled, "Inconclusive", "the pipeline was cancelled")
	})
	th.act("cancelled before it started", func(*testing.T) {
		th.ask("early", embedded("nowhere", `,"status":"RunCancelled"`))
		th.ends("early", no, customrun.Cancelled, "Inconclusive", "")
	})
	th.act("timeout and retries", func(t *testing.T) {
		s := th.service("slow")
		s.Split(0)
		th.ask("slow", embedded("slow", `,"timeout":"40s","retries":1`))
		r := th.ends("slow", no, customrun.GateUndecided, "Inconclusive", "Nothing was measured")
		if len(r.Status.RetriesStatus) != 1 || r.Status.RetriesStatus[0].CompletionTime == nil || len(r.Status.RetriesStatus[0].Results) == 0 {
			t.Errorf("attempts: %+v", r.Status.RetriesStatus)
		}
		if !r.Status.RetriesStatus[0].CompletionTime.Before(r.Status.CompletionTime) {
			t.Error("both attempts ended at once")
		}
	})
	th.act("superseded", func(*testing.T) {
		s := th.service("moved")
		th.ask("moved", embedded("moved", ""))
		th.judging("moved")
		s.Split(50)
		th.ends("moved", no, customrun.GateSuperseded, "Superseded", "superseded")
	})
	th.act("invalid requests", func(t *testing.T) {
		for name, c := range invalidRuns {
			th.ask("wrong-"+name, c.spec)
			r := th.ends("wrong-"+name, no, c.reason, "Error", c.says)
			if len(r.Status.RetriesStatus) > 0 {
				t.Errorf("%s was retried", name)
			}
		}
	})
	th.act("deleted during its run", func(t *testing.T) {
		th.service("deleted")
		th.gate("deleted", false)
		th.ask("deleted", customRef+`,"name":"deleted"}}`)
		th.judging("deleted")
		th.stands("deleted", func(g *v1alpha1.CanaryGate) bool {
			return g.Status.Latest != nil && g.Status.Latest.Verdict == verdict.Running && g.Status.Latest.Canary != ""
		})
		must(t, th.runs.Delete(t.Context(), "deleted", metav1.DeleteOptions{}))
		is := th.stands("deleted", func(g *v1alpha1.CanaryGate) bool { return g.Status.Latest.Verdict != verdict.Running }).Status
		l := is.Latest
		if len(is.History) != 1 || is.History[0].ID != l.ID || is.History[0].Verdict != verdict.Inconclusive {
			t.Errorf("the history is %+v", is.History)
		}
		if l.Verdict != verdict.Inconclusive || !slices.Equal(l.Reasons, []string{gate.Cancelled}) || l.CustomRun != "deleted" || l.Missing != nil {
			t.Errorf("%+v", l)
		}
	})
	th.act("deleted with its verdict", func(t *testing.T) {
		s := th.service("announced")
		th.gate("announced", false)
		th.ask("announced", customRef+`,"name":"announced"}}`)
		th.judging("announced")
		s.Serve(stage.Canary, 200, 0)
		s.Serve(stage.Baseline, 200, 0)
		g := th.stands("announced", func(g *v1alpha1.CanaryGate) bool {
			return g.Status.Latest != nil && g.Status.Latest.Verdict == verdict.Pass
		})
		// The gate has not taken note of it yet.
		stop()
		g.Status.Latest.Verdict, g.Status.History = verdict.Running, nil
		_, err := th.gates.UpdateStatus(t.Context(), g, metav1.UpdateOptions{})
		must(t, err)
		must(t, th.runs.Delete(t.Context(), "announced", metav1.DeleteOptions{}))
		stop = th.process()
		is := th.stands("announced", func(g *v1alpha1.CanaryGate) bool { return g.Status.Latest.Verdict != verdict.Running }).Status
		l := is.Latest
		if len(is.History) != 1 || is.History[0].ID != l.ID || is.History[0].Verdict != verdict.Pass {
			t.Errorf("the history is %+v", is.History)
		}
		if l.Verdict != verdict.Pass || l.CustomRun != "announced" {
			t.Errorf("%+v", l)
		}
	})
	th.act("CustomRuns of others", func(t *testing.T) {
		foreign := th.ask("foreign", `{"customRef":{"apiVersion":"example.dev/v1","kind":"Other"}}`)
		elsewhere := th.ask("elsewhere", embedded("elsewhere", ""))
		stop()
		stop = th.process() // a promotion starts like this
		time.Sleep(time.Second)
		for _, u := range []string{foreign.GetName(), elsewhere.GetName()} {
			is, err := th.runs.Get(t.Context(), u, metav1.GetOptions{})
			must(t, err)
			if v := map[string]string{"foreign": foreign.GetResourceVersion(), "elsewhere": elsewhere.GetResourceVersion()}[u]; is.GetResourceVersion() != v {
				t.Errorf("%s was written: %v", u, is.Object["status"])
			}
		}
	})
	th.act("the process is killed", func(t *testing.T) {
		th.restarts(t, &stop)
	})
}

// restarts stops the process during a run and starts new ones. It keeps stop up to date.
func (th *theatre) restarts(t *testing.T, stop *func()) {
	t.Helper()
	s := th.service("long")
	th.ask("long", embedded("long", ""))
	th.judging("long")
	s.Serve(stage.Canary, 70, 0)
	th.until("long", func(r *customrun.Run) bool { return strings.Contains(message(r), ": 70 and 0 requests") })
	(*stop)()
	s.Serve(stage.Canary, 10, 0) // no process runs
	s.Process()                  // the new process reads the pods from the start
	// The request was frozen when the run started.
	_, err := th.runs.Patch(t.Context(), "long", "application/merge-patch+json", []byte(`{"spec":{"params":[{"name":"min-requests","value":"1"}]}}`), metav1.PatchOptions{})
	must(t, err)
	*stop = th.process()
	th.until("long", func(r *customrun.Run) bool {
		return strings.Contains(message(r), ": 80 and 0 requests; still needed, at least: 20 requests of the canary, 100")
	})
	s.Serve(stage.Canary, 20, 0)
	s.Serve(stage.Baseline, 100, 0)
	r := th.ends("long", yes, customrun.GatePassed, "Pass", "")
	// The next process reports again what was reported before the process died.
	run, _ := r.Status.GateRun()
	th.mu.Lock()
	delete(th.told, run.ID)
	th.mu.Unlock()
	(*stop)()
	*stop = th.process()
	for range 100 {
		th.mu.Lock()
		told := th.told[run.ID]
		th.mu.Unlock()
		if told != "" {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("a verdict was not reported again")
}

const customRef = `{"customRef":{"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"CanaryGate"`

// invalidRuns are CustomRuns that fail at once and are not retried.
var invalidRuns = map[string]struct{ spec, reason, says string }{
	"unknown":   {embedded("x", `,"params":[{"name":"revison","value":"a"}]`), customrun.InvalidParams, `param "revison" does not exist`},
	"list":      {embedded("x", `,"params":[{"name":"fail-on","value":["Fail"]}]`), customrun.InvalidParams, "must be a string"},
	"bool":      {embedded("x", `,"params":[{"name":"dry-run","value":"perhaps"}]`), customrun.InvalidParams, "true or false"},
	"pass":      {embedded("x", `,"params":[{"name":"fail-on","value":"Pass"}]`), customrun.InvalidSpec, "failOn"},
	"duration":  {embedded("x", `,"params":[{"name":"timeout","value":"20"}],"retries":3`), customrun.InvalidParams, "duration"},
	"field":     {`{"customSpec":{"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"CanaryGate","spec":{"servce":"x"}}}`, customrun.InvalidSpec, "servce"},
	"empty":     {customRef + `}}`, customrun.InvalidParams, "the Service to judge is not specified"},
	"nogate":    {customRef + `,"name":"none"}}`, customrun.GateNotFound, `CanaryGate "none" does not exist`},
	"kind":      {`{"customRef":{"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"CanaryGates","name":"strict"}}`, customrun.InvalidReference, `kind "CanaryGate"`},
	"version":   {`{"customRef":{"apiVersion":"knative-cdevents.dev/v1","kind":"CanaryGate","name":"strict"}}`, customrun.InvalidReference, `apiVersion "knative-cdevents.dev/v1alpha1"`},
	"workspace": {embedded("x", `,"workspaces":[{"name":"w","emptyDir":{}}]`), customrun.WorkspaceNotSupported, "workspaces"},
}

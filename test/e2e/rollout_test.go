// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// second creates the second Revision of Service cart, without traffic, and returns its name.
func (s *scene) second() string {
	s.Helper()
	s.must(suite.Services.Update(s.Context(), s.ns, "cart", version("two")))
	revision := kit.RevisionName("cart", 2)
	_, err := suite.Services.Wait(s.Context(), s.ns, "cart", revision)
	s.must(err)
	return revision
}

// TestTektonStarts: the event of a ready Revision starts its rollout once, in either mode, and 10 % of the traffic are
// in effect when the gate starts.
func TestTektonStarts(t *testing.T) {
	sideBySide(t)
	s := newScene(t)
	s.flow()
	// A second source sends in the other mode. Its events have other ids, because its environment differs.
	to := duckv1.Destination{Ref: &duckv1.KReference{APIVersion: "triggers.tekton.dev/v1beta1", Kind: "EventListener", Name: "rollouts"}}
	s.source("structured", to, func(spec *v1alpha1.CDEventSourceSpec) {
		format := eventingduckv1.DeliveryFormatJson
		spec.Delivery = &eventingduckv1.DeliverySpec{Format: &format}
		spec.Environment = &v1alpha1.Environment{ID: "structured"}
	})
	s.source("plain", service("sink"), func(spec *v1alpha1.CDEventSourceSpec) {
		spec.Filters = []v1alpha1.Filter{{Prefix: map[string]string{"type": "dev.cdeventsx."}}}
	})
	s.deploy("cart")
	s.takePart()
	s.deploy("bystander")
	s.must(suite.Services.Update(t.Context(), s.ns, "bystander", both(pinned(100, 1), version("two"))))
	_, err := suite.Services.Wait(t.Context(), s.ns, "bystander", kit.RevisionName("bystander", 2))
	s.must(err)
	revision := s.second()
	run := s.started(revision)
	gate := s.await(customRuns, run, "gate-10", exists)
	for name, want := range map[string]string{"service": "cart", "canary": revision, "baseline": kit.RevisionName("cart", 1)} {
		if got := value(gate.Spec.Params, name); got != want {
			t.Errorf("the gate's run has %s=%q, want %s", name, got, want)
		}
	}
	if gate.Labels["knative-cdevents.dev/service"] != "cart" {
		t.Errorf("the gate's run cannot be found by its labels: %v", gate.Labels)
	}
	s.split("1=90,2=10")
	// Neither the rollout's own events nor the duplicate in the other mode start anything.
	s.sink.atLeast(t, []string{shifted}, about("cart"), typed(shifted))
	time.Sleep(still)
	all, err := s.list(t.Context(), pipelineRuns, "")
	s.must(err)
	for _, r := range all {
		// The source in the other mode has no selector, so it also sends the events of the bystander, which has no label. The
		// Role does not name that Service, so its rollout fails.
		if value(r.Spec.Params, "service") == "cart" && r.Name != run {
			t.Errorf("another rollout was started: %s", r)
		}
		if value(r.Spec.Params, "service") == "bystander" {
			s.denied(r.Name)
		}
	}
}

// denied requires a rollout to fail because it may not read its Service.
func (s *scene) denied(run string) {
	s.Helper()
	begin := s.await(taskRuns, run, "begin", done)
	if status, _ := begin.succeeded(); status != corev1.ConditionFalse || !strings.Contains(value(begin.Status.Results, "message"), "forbidden") {
		s.Errorf("it was not denied: %s", begin)
	}
}

// TestTektonGateThatNeverRan stops a rollout between a step and its gate. There is no verdict, and it is rolled back.
func TestTektonGateThatNeverRan(t *testing.T) {
	sideBySide(t)
	s := newScene(t)
	s.flow()
	s.source("plain", service("sink"))
	s.deploy("cart")
	s.takePart()
	run := s.started(s.second())
	s.await(taskRuns, run, "shift-10", exists)
	s.ask(run, "StoppedRunFinally") // lets running tasks finish, and starts no new ones
	s.ended(run, corev1.ConditionFalse, "1=100")
	if all, err := s.list(t.Context(), customRuns, run); err != nil || len(all) > 0 {
		t.Errorf("a gate ran: %v (%v)", all, err)
	}
	shift := s.await(taskRuns, run, "shift-10", done)
	if got := value(shift.Status.Results, "traffic"); !strings.HasSuffix(got, "=10") {
		t.Errorf("it was not rolled back: %s", shift)
	}
	s.await(taskRuns, run, "rollback", done)
	s.sink.atLeast(t, []string{rolledBack}, typed(rolledBack))
}

// TestTektonRefuses starts rollouts that must not move any traffic.
func TestTektonRefuses(t *testing.T) {
	sideBySide(t)
	s := newScene(t)
	s.flow()
	ctx := t.Context()
	s.deploy("cart")
	s.takePart()
	run := s.started(s.second())
	s.await(taskRuns, run, "shift-10", done)
	s.ask(run, "Cancelled") // no rollback, which would interfere
	first, second := kit.RevisionName("cart", 1), kit.RevisionName("cart", 2)
	for what, c := range map[string]struct {
		traffic, split, canary, why, gate string
	}{
		"another rollout": {`[{"revisionName":"` + first + `","percent":60},{"revisionName":"` + second + `","percent":40}]`, "1=60,2=40", second, "no Revision has all of it", "cart"},
		"unpinned":        {`[{"latestRevision":true,"percent":100}]`, "2=100", second, "latestRevision: true", "cart"},
		"older":           {`[{"revisionName":"` + second + `","percent":100}]`, "2=100", first, "is older than", "cart"},
		"no Revision":     {`[{"revisionName":"` + first + `","percent":100}]`, "1=100", "cart-00009", "not found", "cart"},
		"no gate":         {`[{"revisionName":"` + first + `","percent":100}]`, "1=100", second, "reading CanaryGate " + s.ns + "/absent", "absent"},
	} {
		s.must(suite.Services.PatchTraffic(ctx, s.ns, "cart", c.traffic))
		run := s.again(func(run *unstructured.Unstructured) { setParam(run, "canary", c.canary); setParam(run, "gate", c.gate) })
		s.ended(run, corev1.ConditionFalse, c.split)
		all, err := s.list(ctx, taskRuns, run)
		s.must(err)
		last := all[len(all)-1]
		for _, r := range all {
			if strings.Contains(value(r.Status.Results, "message"), c.why) {
				last = r
			}
		}
		if got := value(last.Status.Results, "message"); !strings.Contains(got, c.why) {
			t.Errorf("%s: the message is %q, want %q", what, got, c.why)
		}
	}
}

// setParam sets a param of a run.
func setParam(run *unstructured.Unstructured, name, value string) {
	params, _, err := unstructured.NestedSlice(run.Object, "spec", "params")
	if err != nil {
		panic(err) // our own manifest
	}
	for _, p := range params {
		if m, ok := p.(map[string]any); ok && m["name"] == name {
			m["value"] = value
		}
	}
	if err := unstructured.SetNestedSlice(run.Object, params, "spec", "params"); err != nil {
		panic(err)
	}
}

// gate patches CanaryGate cart.
func (s *scene) gate(patch string) {
	s.Helper()
	_, err := suite.Dynamic.Resource(gates).Namespace(s.ns).Patch(s.Context(), "cart", "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
	s.must(err)
}

// send sends requests to Service cart until the returned function is called, which returns the number of responses.
func (s *scene) send() func() int {
	s.Helper()
	in, err := suite.Services.Ingress(s.Context())
	s.must(err)
	svc, err := suite.Serving.ServingV1().Services(s.ns).Get(s.Context(), "cart", metav1.GetOptions{})
	s.must(err)
	ctx, cancel := context.WithCancel(s.Context())
	answered := make(chan int)
	go func() {
		n := 0
		for ctx.Err() == nil {
			if _, err := in.Get(ctx, svc.Status.URL.URL()); err == nil {
				n++
			}
			time.Sleep(10 * time.Millisecond)
		}
		answered <- n
	}()
	return func() int { cancel(); return <-answered }
}

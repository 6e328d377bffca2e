// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/gatehttp"
	"github.com/knative-cdevents/knative-cdevents/test/filled"
	"github.com/knative-cdevents/knative-cdevents/test/fleet"
	"github.com/knative-cdevents/knative-cdevents/test/stage"
)

// whole is a judgement without a zero field, as a judge could reach it.
func whole() verdict.Judgement {
	j := filled.New[verdict.Judgement]()
	j.Verdict = verdict.Running
	for i := range j.Metrics {
		j.Metrics[i].Verdict = verdict.Running
	}
	return j
}

// judgedRun returns the run of a gate after its judge has reached a judgement.
func judgedRun(t *testing.T, service string, j verdict.Judgement) *v1alpha1.GateRun {
	t.Helper()
	now := time.Now().Truncate(time.Second)
	key := types.NamespacedName{Namespace: fleet.Shop, Name: service}
	s := stage.New(key, false, func() time.Time { return now })
	run := fleet.Must[*gaterun.Run](t)(gaterun.Open(t.Context(), gaterun.Opening{
		Namespace: key.Namespace, ID: "r1", Spec: &v1alpha1.CanaryGateSpec{Service: service}, Start: now,
	}))
	m := gaterun.Moment{Counts: s, Analyze: func(*judge.Run, judge.Plan, judge.Window) verdict.Judgement { return j }}
	for range 2 { // the first step begins the evidence
		m.Now = now
		m.Service, m.Known = s.Service(key)
		if err := run.Step(m); err != nil {
			t.Fatal(err)
		}
		s.Serve(stage.Canary, 9, 1)
		now = now.Add(15 * time.Second)
	}
	return run.GateRun.Public()
}

// A judgement has the same fields for the judge, in the status, over HTTP, in the page and in an event.
func TestOneJudgementEverywhere(t *testing.T) {
	want := whole()
	run := judgedRun(t, "cart", want)
	equal := func(where string, got *verdict.Judgement) {
		t.Helper()
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", where, diff)
		}
	}
	equal("the run", run.Report)

	c := start(t)
	c.AddService(t, "cart", "", 90, 10)
	c.AddGate(t, "cart-gate", "cart", run)
	gates := c.Events.CanaryGates(fleet.Shop)
	g := fleet.Must[*v1alpha1.CanaryGate](t)(gates.Get(t.Context(), "cart-gate", metav1.GetOptions{}))
	if len(g.Unread) > 0 {
		t.Errorf("the client cannot read %v", g.Unread)
	}
	equal("the status", g.Status.Run.Report)

	handler := (&gatehttp.Handler{
		Gates: only{g}, Services: only{}, Guard: everybody{}, Logger: zap.NewNop().Sugar(),
	}).Init()
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/gates/shop/cart-gate", nil))
	var answer struct{ Report *verdict.Judgement }
	if err := json.Unmarshal(response.Body.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	equal("the answer over HTTP", answer.Report)

	server := c.serve(t, "operator", "system:masters")
	view := nextOf[struct {
		Service struct {
			Runs []struct{ Judgement *verdict.Judgement }
		}
	}](t, stream(t, server.URL()+"live?namespace=shop&name=cart"))
	if len(view.Service.Runs) != 1 {
		t.Fatalf("the page shows %+v", view)
	}
	equal("the page", view.Service.Runs[0].Judgement)

	if diff := cmp.Diff(want.Summary(), gate.VerdictOf(g.Status.Run).Summary); diff != "" {
		t.Errorf("the event differs:\n%s", diff)
	}

	// The API server refuses what the type cannot hold, so no reader has to expect it.
	patch := `{"status":{"run":{"report":{"score":"high"}}}}`
	err := c.Core.CoreV1().RESTClient().Patch(types.MergePatchType).Body([]byte(patch)).
		AbsPath("/apis/knative-cdevents.dev/v1alpha1/namespaces", fleet.Shop, "canarygates/cart-gate/status").Do(t.Context()).Error()
	if !apierrors.IsInvalid(err) {
		t.Errorf("a score that is no number: %v", err)
	}
}

// only is one gate, of a Service that is not known.
type only struct{ gate *v1alpha1.CanaryGate }

func (only) Synced() bool                                                { return true }
func (o only) Cached(types.NamespacedName) (*v1alpha1.CanaryGate, error) { return o.gate, nil }
func (only) Effective(types.NamespacedName) *gaterun.Service             { return nil }

type everybody struct{}

func (everybody) Check(*http.Request, types.NamespacedName) error { return nil }

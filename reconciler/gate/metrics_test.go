// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

func ptr[T any](v T) *T { return &v }

// leader leads for all Services, or for none.
type leader bool

func (l *leader) IsLeaderFor(types.NamespacedName) bool { return bool(*l) }

var always, never = new(leader(true)), new(leader(false))

func TestMetrics(t *testing.T) {
	t.Parallel()
	now, leads := time.Unix(1.8e9, 0), leader(true)
	m := NewMetrics(func() time.Time { return now }, &leads)
	run := &v1alpha1.GateRun{
		ID: "1", Gate: "strict", Service: v1alpha1.GateObject{Name: "cart", UID: "u"}, StartTime: metav1.NewTime(now), Verdict: "Running",
		Canary:    v1alpha1.GateObject{Name: "cart-00002"},
		Effective: &v1alpha1.GateEffective{DryRun: true, GatePolicy: v1alpha1.GatePolicy{Minimum: &v1alpha1.GateMinimum{CanaryRequests: ptr(int64(300))}}},
		Report: &verdict.Judgement{
			Verdict: verdict.Running, Canary: verdict.Samples{Requests: 12}, Baseline: verdict.Samples{Requests: 90}, HandledShare: ptr(.1),
			Metrics: []verdict.MetricResult{
				{
					Name: "ErrorRate", Verdict: verdict.Running, Reason: verdict.Undecided, Canary: ptr(.25), EFail: 3, EFailLimit: 40, EPass: .5, EPassLimit: 20,
					P: ptr(.03),
				},
				{Name: "SlowRequests", Verdict: verdict.Pass},
			},
		},
	}
	m.Record("shop", &v1alpha1.GateRun{ID: "0", Service: v1alpha1.GateObject{Name: "anything"}}) // no such Service
	m.Record("shop", run)
	now = now.Add(time.Minute)
	want := `
# HELP gate_canary_info 1 for the Revision that the run in progress judges, or else that the last run judged.
# TYPE gate_canary_info gauge
gate_canary_info{dry_run="true",gate="strict",k8s_namespace_name="shop",kn_revision_name="cart-00002",kn_service_name="cart"} 1
# HELP gate_duration_seconds How long the run in progress has taken so far, or else how long the last run took, in seconds.
# TYPE gate_duration_seconds gauge
gate_duration_seconds{gate="strict",k8s_namespace_name="shop",kn_service_name="cart"} 60
# HELP gate_evalue Evidence as an e-value, by metric of the gate and by what it would prove (fail or pass).
# TYPE gate_evalue gauge
gate_evalue{gate="strict",k8s_namespace_name="shop",kn_service_name="cart",metric="ErrorRate",side="fail"} 3
gate_evalue{gate="strict",k8s_namespace_name="shop",kn_service_name="cart",metric="ErrorRate",side="pass"} 0.5
gate_evalue{gate="strict",k8s_namespace_name="shop",kn_service_name="cart",metric="SlowRequests",side="fail"} 0
gate_evalue{gate="strict",k8s_namespace_name="shop",kn_service_name="cart",metric="SlowRequests",side="pass"} 0
# HELP gate_evalue_required The e-value that decides, by metric of the gate and by what it would prove (fail or pass).
# TYPE gate_evalue_required gauge
gate_evalue_required{gate="strict",k8s_namespace_name="shop",kn_service_name="cart",metric="ErrorRate",side="fail"} 40
gate_evalue_required{gate="strict",k8s_namespace_name="shop",kn_service_name="cart",metric="ErrorRate",side="pass"} 20
# HELP gate_handled_share_ratio Share of the requests that the canary handled over the judged time.
# TYPE gate_handled_share_ratio gauge
gate_handled_share_ratio{gate="strict",k8s_namespace_name="shop",kn_service_name="cart"} 0.1
# HELP gate_metric_value Ratio of bad requests, by metric of the gate and arm (canary or baseline).
# TYPE gate_metric_value gauge
gate_metric_value{arm="canary",gate="strict",k8s_namespace_name="shop",kn_service_name="cart",metric="ErrorRate"} 0.25
# HELP gate_metric_verdict 1 for the current verdict on each metric of the gate, with its reason.
# TYPE gate_metric_verdict gauge
gate_metric_verdict{gate="strict",k8s_namespace_name="shop",kn_service_name="cart",metric="ErrorRate",reason="Undecided",verdict="Running"} 1
gate_metric_verdict{gate="strict",k8s_namespace_name="shop",kn_service_name="cart",metric="SlowRequests",reason="",verdict="Pass"} 1
# HELP gate_p_value p-value of the last comparison over the shards, by metric of the gate; only of sharded Services.
# TYPE gate_p_value gauge
gate_p_value{gate="strict",k8s_namespace_name="shop",kn_service_name="cart",metric="ErrorRate"} 0.03
# HELP gate_samples Finished requests that were judged, by arm (canary or baseline).
# TYPE gate_samples gauge
gate_samples{arm="baseline",gate="strict",k8s_namespace_name="shop",kn_service_name="cart"} 90
gate_samples{arm="canary",gate="strict",k8s_namespace_name="shop",kn_service_name="cart"} 12
# HELP gate_samples_required Finished requests that are required at least, by arm (canary or baseline).
# TYPE gate_samples_required gauge
gate_samples_required{arm="canary",gate="strict",k8s_namespace_name="shop",kn_service_name="cart"} 300
`
	if err := testutil.CollectAndCompare(m, strings.NewReader(want), "gate_canary_info", "gate_duration_seconds", "gate_metric_verdict", "gate_p_value", "gate_evalue", "gate_evalue_required", "gate_handled_share_ratio",
		"gate_metric_value", "gate_samples", "gate_samples_required"); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(m, "gate_verdict"); n != len(verdict.All()) {
		t.Errorf("%d verdicts", n)
	}
	counted := func(n int) {
		t.Helper()
		want := fmt.Sprintf(`
# HELP gate_run_reasons_total Finished runs, by verdict and most important reason.
# TYPE gate_run_reasons_total counter
gate_run_reasons_total{gate="strict",k8s_namespace_name="shop",kn_service_name="cart",reason="RelativeRegression",verdict="Fail"} %d
# HELP gate_runs_total Finished runs, by verdict. It begins at 0, when the gate is first seen.
# TYPE gate_runs_total counter
`, n)
		if n == 0 {
			want = want[strings.Index(want, "# HELP gate_runs_total"):]
		}
		for _, v := range []string{"Error", "Fail", "Inconclusive", "Pass", "Superseded", "Warn"} {
			of := 0
			if v == "Fail" {
				of = n
			}
			want += fmt.Sprintf("gate_runs_total{gate=\"strict\",k8s_namespace_name=\"shop\",kn_service_name=\"cart\",verdict=%q} %d\n", v, of)
		}
		if err := testutil.CollectAndCompare(m, strings.NewReader(want), "gate_runs_total", "gate_run_reasons_total"); err != nil {
			t.Error(err)
		}
	}
	counted(0)
	at := metav1.NewTime(now)
	run = run.DeepCopy()
	run.CompletionTime, run.Verdict, run.Reasons = &at, "Fail", []string{"RelativeRegression", "LowScore"}
	m.Record("shop", run)
	m.Record("shop", run) // as at each sync
	counted(1)
	now = now.Add(time.Minute)
	again := run.DeepCopy()
	again.ID, again.CompletionTime.Time = "1b", now
	m.Record("shop", again)
	counted(2)
	now = now.Add(reportPeriod + time.Second)
	if n := testutil.CollectAndCount(m, "gate_verdict"); n != 0 {
		t.Errorf("%d series an hour after the end", n)
	}
	m.forgetGate("shop/strict")
	if n := testutil.CollectAndCount(m); n != 0 {
		t.Errorf("%d series of a deleted gate", n)
	}
	m.Record("shop", &v1alpha1.GateRun{ID: "2", Gate: "strict", Service: run.Service, StartTime: metav1.NewTime(now), Verdict: "Running"})
	leads = false
	if n := testutil.CollectAndCount(m); n != 0 {
		t.Errorf("%d series of a Service with another leader", n)
	}
}

// The previous leader has counted the runs that were complete then.
func TestRunIsCountedOnce(t *testing.T) {
	t.Parallel()
	now := time.Unix(1.8e9, 0)
	m := NewMetrics(func() time.Time { return now }, always)
	for id, ago := range map[string]time.Duration{"young": time.Second, "old": countedWithin + time.Second} {
		end := metav1.NewTime(now.Add(-ago))
		m.Record("shop", &v1alpha1.GateRun{
			ID: id, Gate: id, Service: v1alpha1.GateObject{Name: "cart", UID: "u"}, StartTime: end, CompletionTime: &end, Verdict: "Fail",
		})
	}
	if n := testutil.CollectAndCount(m, "gate_run_reasons_total"); n != 1 {
		t.Errorf("%d runs are counted", n)
	}
	if n := testutil.CollectAndCount(m, "gate_verdict"); n != 2*len(verdict.All()) {
		t.Errorf("%d verdicts are exported", n)
	}
}

func TestDeletedRunIsNotInProgress(t *testing.T) {
	t.Parallel()
	now := time.Unix(1.8e9, 0)
	m := NewMetrics(func() time.Time { return now }, always)
	end := metav1.NewTime(now)
	for id, over := range map[string]*metav1.Time{"u1-0": nil, "u11-0": nil, "u2-0": &end} {
		m.Record("shop", &v1alpha1.GateRun{ID: id, Gate: id, Service: v1alpha1.GateObject{Name: "cart", UID: "u"}, StartTime: end, CompletionTime: over})
	}
	m.forgetRun("u1")
	m.forgetRun("u2")
	if n := testutil.CollectAndCount(m, "gate_duration_seconds"); n != 2 {
		t.Errorf("%d runs are exported", n)
	}
}

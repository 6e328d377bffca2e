// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/traffic"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/fleet"
)

// release is a canary that was judged.
type release struct {
	number  int
	began   time.Duration
	minutes int
	verdict verdict.Verdict
	reasons []string
	// failed is how many of 100 requests of each minute fail, where they enter.
	failed  float64
	sharded bool
	// lacks is why that is not known.
	lacks string
}

// addFinished stores what finished runs of a gate measured, and what became of each release, as the controller does.
func (f *fleetOf) addFinished(t *testing.T) {
	t.Helper()
	service := f.AddService(t, "pay", "", 100, 0)
	f.AddEntry(t, f.payments(service.UID))
	for _, r := range []release{
		{number: 2, began: 200 * time.Hour, minutes: 30, verdict: verdict.Pass, reasons: []string{"NonInferior"}},
		{number: 3, began: 150 * time.Hour, minutes: 4, verdict: verdict.Fail, reasons: []string{"RelativeRegression", "DryRun"}, failed: 9},
		{number: 4, began: 100 * time.Hour, minutes: 12, verdict: verdict.Pass, reasons: []string{"NonInferior"}, failed: .8},
		{number: 5, began: 50 * time.Hour, minutes: 12, verdict: verdict.Pass, reasons: []string{"NonInferior"}, failed: 1.2, sharded: true},
		{number: 6, began: 20 * time.Hour, minutes: 30, verdict: verdict.Inconclusive, reasons: []string{"NoData"}, lacks: "EntryMetricsUnavailable"},
		{number: 1, began: 20 * 24 * time.Hour, minutes: 30, verdict: verdict.Pass},
	} {
		measured := &traffic.Record{Start: ago(r.began), Sharded: r.sharded, Bounds: []float64{.1, .5, 1}}
		for m := range 4 * r.minutes {
			at := time.Duration(m) * 15 * time.Second
			measured.Add(traffic.Window{
				From: at, To: at + 15*time.Second,
				Canary:   traffic.Side{Lacks: r.lacks, Entry: traffic.Counts{Requests: 100, Errors: r.failed, Seconds: 4 + float64(m%3)/10, Buckets: []float64{99, 1}}},
				Baseline: traffic.Side{Entry: traffic.Counts{Requests: 900, Errors: float64(m % 2), Seconds: 36 + float64(m%5), Buckets: []float64{890, 10}}},
			})
		}
		raw := fleet.Must[[]byte](t)(measured.Pack())
		end := metav1.NewTime(ago(r.began).Add(time.Duration(r.minutes) * time.Minute))
		id := fmt.Sprintf("g1-%d", r.number)
		run := &v1alpha1.CanaryGateRun{
			ObjectMeta: metav1.ObjectMeta{Name: "canarygate-" + id, Labels: map[string]string{v1alpha1.FinishedRunLabel: "true"}},
			Spec:       v1alpha1.CanaryGateRunSpec{Kind: "CanaryGate", Namespace: fleet.Shop, Name: "pay-gate", UID: "g1"},
			Status: v1alpha1.CanaryGateRunStatus{Run: &v1alpha1.GateRun{
				ID: id, Gate: "pay-gate", Service: v1alpha1.GateObject{Name: "pay", UID: service.UID}, Canary: v1alpha1.GateObject{Name: payment(r.number), UID: types.UID(payment(r.number))},
				Baseline: &v1alpha1.GateObject{Name: payment(r.number - 1), UID: types.UID(payment(r.number - 1))}, StartTime: metav1.NewTime(ago(r.began)), Deadline: end, CompletionTime: &end,
				Verdict: r.verdict, Reasons: r.reasons, Evidence: &runtime.RawExtension{Raw: raw},
			}},
		}
		fleet.Must[*v1alpha1.CanaryGateRun](t)(f.Events.CanaryGateRuns(fleet.System).Create(t.Context(), run, metav1.CreateOptions{}))
	}
	elsewhere := &v1alpha1.CanaryGateRun{
		ObjectMeta: metav1.ObjectMeta{Name: "canarygate-g9-1", Labels: map[string]string{v1alpha1.FinishedRunLabel: "true"}},
		Spec:       v1alpha1.CanaryGateRunSpec{Kind: "CanaryGate", Namespace: "other", Name: "x", UID: "g9"},
	}
	fleet.Must[*v1alpha1.CanaryGateRun](t)(f.Events.CanaryGateRuns(fleet.System).Create(t.Context(), elsewhere, metav1.CreateOptions{}))
}

func payment(n int) string { return fmt.Sprintf("pay-%05d", n) }

// payments is the history of the Service: 2 and 4 were kept, 3 was withdrawn, 5 had an incident.
func (f *fleetOf) payments(uid types.UID) *v1alpha1.CDEventSubject {
	s := f.entry("Service", "shop", "pay", uid, nil)
	past := func(number int64, before time.Duration, kind lifecycle.Type, revision, previous, incident string) v1alpha1.PastTransition {
		return v1alpha1.PastTransition{Sequence: number, Time: *micro(before), Type: string(kind), Revision: revision, Previous: previous, Incident: incident}
	}
	s.Status.History = fleet.History(
		past(1, 198*time.Hour, lifecycle.Upgraded, payment(2), payment(1), ""),
		past(2, 149*time.Hour, lifecycle.RolledBack, payment(2), payment(3), ""),
		past(3, 99*time.Hour, lifecycle.Upgraded, payment(4), payment(2), ""),
		past(4, 49*time.Hour, lifecycle.Upgraded, payment(5), payment(4), ""),
		past(5, 48*time.Hour, lifecycle.IncidentDetected, payment(5), "", string(lifecycle.Outage)),
	)
	s.Status.Sequence = 5
	return s
}

// compare runs the command with the defaults of the tools and with files.
func (f *fleetOf) compare(t *testing.T, config string) {
	f.addFinished(t)
	run(t, config, "", "compare", "-n", "shop").golden(t, "compare")
	run(t, config, "", "compare", "-n", "shop", "-o", "wide").golden(t, "compare-wide")
	run(t, config, "", "compare", "pay", "-n", "shop", "--since", "3d", "-o", "yaml").golden(t, "compare-yaml")
	run(t, config, "terminal", "compare", "-n", "shop", "--since", "28d", "-f", "testdata/analysistemplate.yaml", "--kayenta-lifetime", "4m").golden(t, "compare-terminal")
	run(t, config, "", "compare", "-n", "shop", "-f", "testdata/canary.yaml").golden(t, "compare-canary")
	run(t, config, "", "compare", "books", "-n", "shop").golden(t, "compare-none")
	other := filepath.Join(t.TempDir(), "deployment.yaml")
	if err := os.WriteFile(other, []byte("kind: Deployment"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		`kind "Deployment" is not known`: {"-f", other}, "no such file": {"-f", "testdata/nope.yaml"},
		`"often" for "--since" flag: it must be a duration`: {"--since", "often"}, `"-1h" for "--since"`: {"--since=-1h"},
	} {
		run(t, config, "", append([]string{"compare", "-n", "shop"}, args...)...).errors(t, want)
	}
}

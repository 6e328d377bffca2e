// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

func TestVerdictOfARun(t *testing.T) {
	t.Parallel()
	at := metav1.NewTime(time.Unix(1.8e9, 0))
	run := &v1alpha1.GateRun{
		ID: "1", Gate: "strict", Canary: v1alpha1.GateObject{Name: "c"}, Baseline: &v1alpha1.GateObject{Name: "b"}, Verdict: "Inconclusive",
		Reasons: []string{Cancelled, "DryRun"}, StartTime: at, CompletionTime: &at,
		Report: &runtime.RawExtension{Raw: []byte(`{"score":50,"coverage":1,"canary":{"requests":3},"baseline":{"requests":9},"metrics":[{"name":"m","verdict":"Pass"}]}`)},
	}
	want := lifecycle.Verdict{
		Run: "1", Gate: "strict", Verdict: "Inconclusive", Reasons: run.Reasons, DryRun: true, Cancelled: true, Canary: "c", Baseline: "b",
		Score: 50, Coverage: 1, CanaryRequests: 3, BaselineRequests: 9, Started: at.Time, Completed: at.Time,
		Metrics: []lifecycle.VerdictMetric{{Name: "m", Verdict: "Pass"}},
	}
	if diff := cmp.Diff(want, VerdictOf(run)); diff != "" {
		t.Error(diff)
	}
	run.Report = nil
	if v := VerdictOf(run); v.Run != "1" || v.Metrics != nil {
		t.Errorf("without a report: %+v", v)
	}
}

// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"slices"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// A run says why in a line. What the figures beside it show is not said again, and nothing else is lost.
func TestSummary(t *testing.T) {
	t.Parallel()
	of := func(f float64) *float64 { return &f }
	const message = "589 requests of the canary, 1711 of the baseline from 22:45:59 to 22:46:19 (UTC); " +
		"ErrorRate: 5.6 % to 0 %, odds above 1.5 times the baseline's; EntryErrors: 2.17 % to 1.35 %, undecided; " +
		"24 shards of the canary compared with 76 of the baseline by their rates alone; the canary handled 25.6 % of the requests"
	report := &verdict.Judgement{
		Canary: verdict.Samples{Requests: 589}, Baseline: verdict.Samples{Requests: 1711, Missing: 3},
		Metrics: []verdict.MetricResult{
			{Name: "EntryErrors", Verdict: verdict.Running, Reason: verdict.Undecided, Canary: of(.0217), Baseline: of(.0135)},
			{Name: "ErrorRate", Verdict: verdict.Fail, Reason: verdict.RelativeRegression, Canary: of(.056), Baseline: of(0)},
		},
	}
	remarks := []string{"24 shards of the canary compared with 76 of the baseline by their rates alone", "the canary handled 25.6 % of the requests"}
	for _, c := range []struct {
		name    string
		run     v1alpha1.GateRun
		summary string
		remarks []string
	}{
		{
			"failed",
			v1alpha1.GateRun{Verdict: verdict.Fail, Message: message, Report: report},
			"ErrorRate: 5.6 % of the canary's requests are bad, and 0 % of the baseline's", remarks,
		},
		{
			"running",
			v1alpha1.GateRun{Verdict: verdict.Running, Message: message, Report: report},
			"589 requests of the canary, 1,711 of the baseline; at least 0 and 3 more are needed", remarks,
		},
		{
			"failed by a limit",
			v1alpha1.GateRun{
				Verdict: verdict.Fail, Message: message + "; 2 restarts of the canary's containers", Report: &verdict.Judgement{Canary: verdict.Samples{Requests: 9}},
			},
			"9 requests of the canary, 0 of the baseline",
			[]string{
				"ErrorRate: 5.6 % to 0 %, odds above 1.5 times the baseline's", "EntryErrors: 2.17 % to 1.35 %, undecided", remarks[0], remarks[1],
				"2 restarts of the canary's containers",
			},
		},
		{
			"passed",
			v1alpha1.GateRun{Verdict: verdict.Pass, Message: message, Report: report},
			"nothing is worse than the gate accepts, after 589 requests of the canary", remarks,
		},
		{
			"without data",
			v1alpha1.GateRun{
				Verdict: verdict.Inconclusive, Message: "ErrorRate: unknown to unknown, no data: NothingCounted",
				Report: &verdict.Judgement{Metrics: []verdict.MetricResult{{Name: "ErrorRate", Reason: verdict.NoData}}},
			},
			"0 requests of the canary, 0 of the baseline",
			[]string{"ErrorRate: unknown to unknown, no data: NothingCounted"},
		},
		{"superseded", v1alpha1.GateRun{Verdict: verdict.Superseded, Message: "the split has changed", Report: report}, "the split has changed", nil},
		{"no judgement yet", v1alpha1.GateRun{Verdict: verdict.Running, Message: "it waits"}, "it waits", nil},
	} {
		if got := Summary(&c.run); got != c.summary {
			t.Errorf("%s: %q, want %q", c.name, got, c.summary)
		}
		if got := Remarks(&c.run); !slices.Equal(got, c.remarks) {
			t.Errorf("%s: %q, want %q", c.name, got, c.remarks)
		}
	}
}

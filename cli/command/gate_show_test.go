// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/cli/report"
	"github.com/knative-cdevents/knative-cdevents/cli/screen"
)

// What is beside a bar has its own column, also if it needs more than one line.
func TestBarsFitTheTerminal(t *testing.T) {
	t.Parallel()
	const long = "36 %, 3.6 times its share; at most 2 is accepted"
	for _, width := range []int{0, 50, 60, 80, 100, 200} {
		var out bytes.Buffer
		now := time.Date(2040, time.January, 2, 12, 0, 0, 0, time.UTC)
		e := &env{Options: Options{Screen: &screen.Screen{Out: &out, Width: width}, Now: func() time.Time { return now }}}
		e.bar("share it handled", .36, long)
		e.showGate(&report.GateReport{
			Name: "cart-gate",
			Run: &v1alpha1.GateRun{
				Service: v1alpha1.GateObject{Name: "cart"}, Canary: v1alpha1.GateObject{Name: "cart-00002"}, StartTime: metav1.NewTime(now),
				Verdict: verdict.Running, Reasons: []string{"InsufficientSample", "ExposureMismatch", "BaselineUnknown", "EntryMetricsUnavailable"},
			},
			History: []v1alpha1.GatePastRun{{CompletionTime: metav1.NewTime(now.Add(-time.Hour)), GateRunSummary: v1alpha1.GateRunSummary{
				ID: "r0", Canary: "cart-00001", Verdict: verdict.Inconclusive, Reasons: []string{"InsufficientSample", "Timeout"},
			}}},
		})
		e.showMetric(verdict.MetricResult{Name: "ErrorRate", EFail: 6.3, EFailLimit: 44, Missing: 240, Detail: "500 instead of 200"})
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); width > 0 && n > width {
				t.Errorf("%d columns on a terminal of %d: %s", n, width, line)
			}
		}
		text := strings.Join(strings.Fields(out.String()), " ")
		for _, want := range []string{
			long, "what rose most 500 instead of 200 proof", "about 240 more requests of the canary",
			"Gate cart-gate judges cart-00002 (Service cart) verdict Running: InsufficientSample, ExposureMismatch, BaselineUnknown",
			"before Inconclusive: InsufficientSample, Timeout on cart-00001, 60 min ago",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in\n%s", want, out.String())
			}
		}
	}
}

func TestShareBesideWhatItShouldBe(t *testing.T) {
	t.Parallel()
	share := func(f float64) *float64 { return &f }
	bounds := &v1alpha1.GateExposure{MinRatio: share(0.5), MaxRatio: share(2)}
	for name, c := range map[string]struct {
		judgement verdict.Judgement
		bounds    *v1alpha1.GateExposure
		want      string
	}{
		"within its bounds": {verdict.Judgement{HandledShare: share(.11), ExpectedShare: share(.1)}, bounds, ""},
		"too much": {
			verdict.Judgement{HandledShare: share(.36), ExpectedShare: share(.1)},
			bounds,
			", 3.6 times its share; at most 2 is accepted",
		},
		"too little": {
			verdict.Judgement{HandledShare: share(.02), ExpectedShare: share(.1), RequiredShare: share(.02)},
			bounds,
			", 0.20 times its share; at least 0.5 is expected",
		},
		"no placement plan": {
			verdict.Judgement{HandledShare: share(.353), RequiredShare: share(.05)},
			bounds,
			", 7.1 times its share in the Route, which the gate does not compare",
		},
		"no split":  {verdict.Judgement{HandledShare: share(.353), RequiredShare: share(0)}, bounds, ""},
		"no bounds": {verdict.Judgement{HandledShare: share(.36), ExpectedShare: share(.1)}, nil, ""},
	} {
		if got := beside(&c.judgement, c.bounds); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

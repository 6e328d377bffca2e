// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// That a gate has judged says nothing of the canary: its verdict does.
func TestOutcomeOfAVerdict(t *testing.T) {
	t.Parallel()
	want := map[verdict.Verdict]Outcome{
		verdict.Pass: Good, verdict.Warn: Unsure, verdict.Fail: Bad, verdict.Error: Bad, verdict.Inconclusive: Unsure,
		verdict.Superseded: Plain, verdict.Running: Plain,
	}
	for _, v := range verdict.All() {
		got := outcome(lifecycle.Transition{Type: lifecycle.Judged, Verdict: &lifecycle.Verdict{Verdict: v}})
		if got != want[v] {
			t.Errorf("%s is %s, want %s", v, got, want[v])
		}
	}
	for kind, want := range map[lifecycle.Type]Outcome{
		lifecycle.Judged: Plain, lifecycle.Upgraded: Good, lifecycle.RolledBack: Unsure, lifecycle.IncidentDetected: Bad, lifecycle.Created: Plain,
	} {
		if got := outcome(lifecycle.Transition{Type: kind}); got != want {
			t.Errorf("%s is %s, want %s", kind, got, want)
		}
	}
}

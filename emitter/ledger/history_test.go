// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// look adds a transition to a history, and decodes all of it.
func look(t *testing.T, h *string, tr lifecycle.Transition) []v1alpha1.PastTransition {
	t.Helper()
	var err error
	if *h, err = appendHistory(*h, tr); err != nil {
		t.Fatal(err)
	}
	all, err := (&v1alpha1.CDEventSubjectStatus{History: *h}).PastTransitions()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What a user has edited is reported, and not replaced.
func TestUnreadableHistoryIsReported(t *testing.T) {
	t.Parallel()
	if _, err := appendHistory("edited by hand\n", lifecycle.Transition{Sequence: 2}); err == nil ||
		!strings.Contains(err.Error(), untilRepaired) {
		t.Errorf("%v, want what is to be done", err)
	}
}

func TestHistoryHasTheLastTransitions(t *testing.T) {
	t.Parallel()
	var stored string
	var h []v1alpha1.PastTransition
	for n := range int64(50) {
		h = look(t, &stored, lifecycle.Transition{
			Sequence: n + 1, Time: time.Unix(n, 0), Type: lifecycle.RevisionReady,
			Revision: &lifecycle.Revision{Name: "cart-00001"},
		})
		if want := min(int(n)+1, MaxHistory); len(h) != want || h[len(h)-1].Sequence != n+1 || h[0].Sequence != n+2-int64(want) {
			t.Fatalf("after %d: %+v", n+1, h)
		}
	}
	if size := jsonSize(h); size > 3<<10 {
		t.Errorf("a usual history has %d bytes", size)
	}
	// A backup that was restored makes numbers come again.
	h = look(t, &stored, lifecycle.Transition{Sequence: 45, Type: lifecycle.Removed})
	if last := h[len(h)-1]; last.Sequence != 45 || last.Type != string(lifecycle.Removed) || h[len(h)-2].Sequence != 44 {
		t.Errorf("%+v", h)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 10_000)
	var stored string
	var h []v1alpha1.PastTransition
	for n := range int64(40) {
		tr := lifecycle.Transition{
			Sequence: n + 1, Type: lifecycle.Published, Reason: long, Revision: &lifecycle.Revision{Name: long}, Previous: &lifecycle.Revision{Name: long},
			URLs: []string{long, "http://1", "http://2", "http://3", "http://4", "http://5"},
		}
		if n%2 == 0 {
			tr.Type = lifecycle.TrafficShifted
			for range 100 {
				tr.Traffic = append(tr.Traffic, lifecycle.Share{Revision: long, Percent: 1})
			}
		}
		h = look(t, &stored, tr)
		if size := jsonSize(h); size > maxHistorySize+maxPastText || h[len(h)-1].Sequence != n+1 {
			t.Fatalf("%d transitions in %d bytes", len(h), size)
		}
	}
	if got := h[len(h)-1].Names; len(got) != maxPastNames || got[0] != "http://1" {
		t.Errorf("%q", got)
	}
}

func TestPastTransition(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC)
	detected := past(lifecycle.Transition{Sequence: 3, Time: at, Type: lifecycle.IncidentDetected, Incident: &lifecycle.IncidentDetails{Kind: lifecycle.Outage, Trouble: lifecycle.Trouble{Reason: "RouteMissing"}}})
	if detected.Incident != "outage" || detected.Reason != "RouteMissing" || !detected.Time.Time.Equal(at) {
		t.Errorf("%+v", detected)
	}
	judged := past(lifecycle.Transition{Type: lifecycle.Judged, Revision: &lifecycle.Revision{Name: "cart-00002"}, Verdict: &lifecycle.Verdict{Gate: "g", Verdict: "Fail", Reasons: []string{"Harmful", "EntryErrors"}}})
	if judged.Gate != "g" || judged.Verdict != "Fail" || judged.Reason != "Harmful, EntryErrors" || judged.Revision != "cart-00002" {
		t.Errorf("%+v", judged)
	}
	modified := past(lifecycle.Transition{Type: lifecycle.EnvironmentModified, Environment: &lifecycle.EnvironmentDetails{Changed: []string{"version"}}})
	if len(modified.Names) != 1 || modified.Names[0] != "version" {
		t.Errorf("%+v", modified)
	}
	if upgraded := past(lifecycle.Transition{Type: lifecycle.Upgraded, Traffic: []lifecycle.Share{{Revision: "a", Percent: 100}}}); upgraded.Traffic != nil {
		t.Errorf("the split of an upgrade says nothing: %+v", upgraded)
	}
}

// SPDX-License-Identifier: Apache-2.0

package route

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// full returns a router with the maximum number of sources in a namespace, whose selectors
// have the maximum length.
func full() (recipients, replays func() int) {
	var all []*v1alpha1.CDEventSource
	for i := range MaxSources {
		s := sourceNamed(fmt.Sprintf("s%02d", i))
		s.Spec.Selector, s.Spec.Replay = notIn(250), v1alpha1.ReplayCurrent
		all = append(all, s)
	}
	r := router(nil)
	r.Sources = listed(all)
	own := ledger.Labels{Own: map[string]string{"team": "web"}, Namespace: labelled}
	recipients = func() int {
		return len(r.Recipients(subject, own, lifecycle.Transition{Sequence: 1, Type: lifecycle.Deployed, Time: noon}))
	}
	l := ledger.New(nil, r, nil)
	replays = func() int {
		return len(l.Replays(&v1alpha1.CDEventSubject{Spec: subject}, func() ledger.Labels { return own }))
	}
	return recipients, replays
}

// These selectors have 8000 values, which must not be parsed again for each transition and
// each reconcile.
func TestSelectorsAreCompiledOnce(t *testing.T) {
	recipients, replays := full()
	for name, ask := range map[string]func() int{"recipients": recipients, "replays": replays} {
		if n := ask(); n != MaxSources {
			t.Fatalf("%s: %d sources, want %d", name, n, MaxSources)
		}
		if n := testing.AllocsPerRun(10, func() { ask() }); n > 20*MaxSources {
			t.Errorf("%s: %.0f allocations for %d sources", name, n, MaxSources)
		}
	}
}

func BenchmarkRecipients(b *testing.B) {
	recipients, _ := full()
	for b.Loop() {
		recipients()
	}
}

// A Service is reconciled now and then. A source that has received the replay is skipped early.
func TestReplayedSourceIsNotEvaluatedAgain(t *testing.T) {
	s := sourceNamed("all")
	s.Spec.Replay = v1alpha1.ReplayCurrent
	r, asked := router(s), 0
	r.Namespace = func(string) (map[string]string, bool, error) { asked++; return labelled, true, nil }
	l := ledger.New(nil, r, nil)
	for _, replayed := range []bool{false, true} {
		asked = 0
		entry := &v1alpha1.CDEventSubject{Spec: subject}
		want := 1
		if replayed {
			entry.Status.Replayed, want = []types.UID{s.UID}, 0
		}
		due := l.Replays(entry, func() ledger.Labels { asked++; return ledger.Labels{} })
		if len(due) != want || asked != 2*want {
			t.Errorf("replayed %v: replays for %v, labels were looked up %d times", replayed, due, asked)
		}
	}
}

func TestSelectorsFollowTheSource(t *testing.T) {
	s := sourceNamed("all")
	r := router(s)
	chosen := func() int {
		return len(r.Recipients(subject, ledger.Labels{Own: map[string]string{"app": "cart"}}, lifecycle.Transition{Sequence: 1, Type: lifecycle.Deployed, Time: noon}))
	}
	for generation, c := range []struct {
		app  string
		want int
	}{{"cart", 1}, {"shop", 0}, {"cart", 1}} {
		s.Generation = int64(generation + 1)
		s.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": c.app}}
		if got := chosen(); got != c.want {
			t.Errorf("generation %d: %d recipients", s.Generation, got)
		}
	}
	if r.Forget(s.UID); len(r.choices.bySource) != 0 {
		t.Errorf("the selectors of a deleted source are kept: %v", r.choices.bySource)
	}
}

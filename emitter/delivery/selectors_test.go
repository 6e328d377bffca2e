package delivery

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// crowded is a router of as many sources as a namespace may have, with selectors as
// long as they may be.
func crowded() (recipients, replays func() int) {
	var all []*v1alpha1.CDEventSource
	for i := range MaxSources {
		s := sourceTo(fmt.Sprintf("s%02d", i), "sink")
		s.Spec.Selector, s.Spec.Replay = notIn(250), v1alpha1.ReplayCurrent
		all = append(all, s)
	}
	r := router(nil)
	r.Sources = func() []*v1alpha1.CDEventSource { return all }
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

// Each of the 8000 values of these selectors was looked at for each transition, and for
// each look at a Service.
func TestSelectorsAreCompiledOnce(t *testing.T) {
	recipients, replays := crowded()
	for name, ask := range map[string]func() int{"for a transition": recipients, "for the present state": replays} {
		if n := ask(); n != MaxSources {
			t.Fatalf("%s: %d are chosen", name, n)
		}
		if n := testing.AllocsPerRun(10, func() { ask() }); n > 20*MaxSources {
			t.Errorf("%s: %.0f allocations for %d sources", name, n, MaxSources)
		}
	}
}

func BenchmarkRecipients(b *testing.B) {
	recipients, _ := crowded()
	for b.Loop() {
		recipients()
	}
}

// A Service is looked at every now and then; who was told once need not be chosen again.
func TestWhoWasToldThePresentStateIsNotChosenAgain(t *testing.T) {
	s := sourceTo("all", "sink")
	s.Spec.Replay = v1alpha1.ReplayCurrent
	r, asked := router(s), 0
	r.Namespace = func(string) (map[string]string, bool, error) { asked++; return labelled, true, nil }
	l := ledger.New(nil, r, nil)
	for _, told := range []bool{false, true} {
		asked = 0
		entry := &v1alpha1.CDEventSubject{Spec: subject}
		want := 1
		if told {
			entry.Status.Replayed, want = []types.UID{s.UID}, 0
		}
		due := l.Replays(entry, func() ledger.Labels { asked++; return ledger.Labels{} })
		if len(due) != want || asked != 2*want {
			t.Errorf("told %v: due to %v, labels were asked for %d times", told, due, asked)
		}
	}
}

func TestSelectorsFollowTheSource(t *testing.T) {
	s := sourceTo("all", "sink")
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
		t.Errorf("of a source that is gone is kept %v", r.choices.bySource)
	}
}

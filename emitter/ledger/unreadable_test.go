package ledger_test

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/reconciler/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// TestWhatCannotBeReadHasItsTurn: before and after what can be read.
func TestWhatCannotBeReadHasItsTurn(t *testing.T) {
	for name, spoil := range map[string]func(*v1alpha1.CDEventSubjectStatus){
		"another shape":     func(st *v1alpha1.CDEventSubjectStatus) { st.Journal[1].Transition.Raw = []byte(`{"sequence":"two"}`) },
		"another number":    func(st *v1alpha1.CDEventSubjectStatus) { st.Journal[1].Transition.Raw = []byte(`{"sequence":7}`) },
		"a form is missing": func(st *v1alpha1.CDEventSubjectStatus) { st.Journal[1].Recipients[0].Profile = "gone" },
	} {
		t.Run(name, func(t *testing.T) {
			s := store.New()
			l := ledger.New(s, everyone{"a"}, &counts{})
			for _, typ := range []lifecycle.Type{lifecycle.Created, lifecycle.Deployed, lifecycle.Published} {
				must(t, add(l, typ, ""))
			}
			o := s.All()[0]
			spoil(&o.Status)
			o, err := s.Update(context.Background(), o, metav1.UpdateOptions{})
			must(t, err)
			l.Observe(o)
			owed := l.Owed(key, "a")
			if got := sequences(owed); got != "1 2 3" {
				t.Fatalf("owed %s", got)
			}
			if got := fmt.Sprint(owed[0].Unreadable != nil, owed[1].Unreadable != nil, owed[2].Unreadable != nil); got != "false true false" {
				t.Errorf("unreadable: %s", got)
			}
			if owed[1].Transition.Type != lifecycle.Deployed || owed[1].Transition.Time.IsZero() {
				t.Errorf("of the unreadable one is known: %+v", owed[1].Transition)
			}
		})
	}
}

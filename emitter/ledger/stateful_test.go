package ledger_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// What a template declares wrongly stands on the entry, in words, and comes and
// goes with what is wrong.
func TestAnEntrySaysWhatIsDeclaredWrongly(t *testing.T) {
	s := store.New()
	l := ledger.New(s, everyone{"a"}, &counts{})
	write := func(at time.Time, newest lifecycle.Revision, runtime string) *metav1.Condition {
		t.Helper()
		m := lifecycle.Memory{Revisions: map[string]lifecycle.Known{"r": {Revision: newest}}}
		if runtime != "" {
			m.Cluster = &lifecycle.ClusterMemory{Runtime: runtime}
		}
		must(t, l.Journal(context.Background(), cart, func(*v1alpha1.CDEventSubject) (*ledger.Change, error) {
			return &ledger.Change{Memory: m, At: at}, nil
		}))
		return meta.FindStatusCondition(s.All()[0].Status.Conditions, ledger.ConditionStateful)
	}
	if c := write(noon, lifecycle.Revision{}, ""); c != nil {
		t.Errorf("nothing is declared, and it says %+v", c)
	}
	wrong := lifecycle.Revision{Misdeclared: "annotation x is y"}
	c := write(noon, wrong, "")
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != "WrongAnnotations" || !strings.HasSuffix(c.Message, "annotation x is y") || !c.LastTransitionTime.Time.Equal(noon) {
		t.Errorf("it says %+v", c)
	}
	if c := write(noon.Add(time.Hour), wrong, "pekko"); c == nil || !c.LastTransitionTime.Time.Equal(noon) {
		t.Errorf("it has been wrong since noon, and it says %+v", c)
	}
	must(t, add(l, lifecycle.Created, ""))
	if c := write(noon, lifecycle.Revision{}, "pekko"); c == nil || c.Status != metav1.ConditionTrue || c.Message != "runtime pekko" {
		t.Errorf("it says %+v", c)
	}
	if got := s.All()[0].Status.Conditions; len(got) != 2 {
		t.Errorf("conditions %+v", got)
	}
}

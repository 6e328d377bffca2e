package ledger_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/reconciler/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// Objects of one name that came and went within a second are told in the order in
// which they were there, and at each call in the same.
func TestObjectsOfOneSecondHaveAnOrder(t *testing.T) {
	s := store.New()
	s.Now = func() time.Time { return noon }
	l := ledger.New(s, everyone{"a"}, &counts{})
	uids := []types.UID{"d", "a", "c", "b"}
	for i, uid := range uids {
		spec := cart
		spec.UID = uid
		at := noon.Add(time.Duration(i) * 100 * time.Millisecond)
		m := lifecycle.Memory{Sequence: 2, Removed: true}
		must(t, l.Journal(context.Background(), spec, func(*v1alpha1.CDEventSubject) (*ledger.Change, error) {
			return &ledger.Change{Memory: m, Transitions: []lifecycle.Transition{
				{Sequence: 1, Time: at, Type: lifecycle.Deployed},
				{Sequence: 2, Time: at.Add(time.Millisecond), Type: lifecycle.Removed},
			}}, nil
		}))
	}
	var want []string
	for _, uid := range uids {
		want = append(want, fmt.Sprint(uid, 1), fmt.Sprint(uid, 2))
	}
	for range 50 {
		var got []string
		for _, o := range l.Owed(key, "a") {
			got = append(got, fmt.Sprint(o.Subject.UID, o.Transition.Sequence))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("owed are %v, want %v", got, want)
		}
	}
}

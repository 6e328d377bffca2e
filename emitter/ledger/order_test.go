// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// Objects of one name that came and went within one second keep their order, at every call.
func TestObjectsOfTheSameSecondKeepTheirOrder(t *testing.T) {
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
		for _, o := range l.Pending(key, "a") {
			got = append(got, fmt.Sprint(o.Subject.UID, o.Transition.Sequence))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("pending %v, want %v", got, want)
		}
	}
}

// A recreated entry keeps its age, although the API server gives it a new creation time.
func TestRecreatedEntryKeepsItsPlace(t *testing.T) {
	s, clock := store.New(), noon
	s.Now = func() time.Time { return clock }
	l, q := queued(s, everyone{"a"}, &counts{})
	order := func(l *ledger.Ledger) string {
		var out []string
		for _, o := range l.Pending(key, "a") {
			out = append(out, fmt.Sprint(o.Subject.UID, o.Transition.Sequence))
		}
		return strings.Join(out, " ")
	}
	for _, uid := range []types.UID{"first", "second"} {
		spec := cart
		spec.UID = uid
		must(t, l.Journal(context.Background(), spec, func(*v1alpha1.CDEventSubject) (*ledger.Change, error) {
			// The clocks of two leaders differ, so these times do not show which came first.
			at := noon.Add(map[types.UID]time.Duration{"first": time.Hour}[uid])
			return &ledger.Change{Memory: lifecycle.Memory{Sequence: 1, Removed: true}, Transitions: []lifecycle.Transition{{Sequence: 1, Time: at, Type: lifecycle.Removed}}}, nil
		}))
		clock = clock.Add(time.Minute)
	}
	for range 2 { // it may happen more than once
		gone := s.Peek(ledger.Name(v1alpha1.CDEventSubjectSpec{Kind: cart.Kind, UID: "first"}))
		s.Remove(gone.Name)
		l.Forget(gone, true)
		must(t, q.write(l))
		if got := s.Peek(gone.Name); got == nil || got.UID == gone.UID {
			t.Fatalf("not recreated: %+v", got)
		}
		next := ledger.New(s, everyone{"a"}, &counts{})
		for _, o := range s.All() {
			next.Observe(o)
		}
		for who, l := range map[string]*ledger.Ledger{"this leader": l, "the next leader": next} {
			if got := order(l); got != "first1 second1" {
				t.Errorf("pending according to %s: %s", who, got)
			}
		}
		clock = clock.Add(time.Minute)
	}
}

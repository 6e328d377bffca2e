// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// updated is called with each part.
type updated func(observer.Part)

func (f updated) Update(_ types.NamespacedName, p observer.Part) { f(p) }

func TestVerdictsArePartOfTheirService(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "shop", Name: "cart"}
	var last observer.Part
	v := NewVerdicts(updated(func(p observer.Part) { last = p }))
	held := func() []lifecycle.Verdict {
		all, _ := last.Value.([]lifecycle.Verdict) // nil if there are none
		return all
	}

	v.Reached(key, "u1", lifecycle.Verdict{Run: "a"})
	v.Reached(key, "u1", lifecycle.Verdict{Run: "a"})
	before := held()
	v.Reached(key, "u1", lifecycle.Verdict{Run: "b"})
	if len(before) != 1 || len(held()) != 2 || !last.Volatile || last.Owner != "u1" {
		t.Errorf("%d, then %+v", len(before), last)
	}
	for i := range 2 * maxVerdicts {
		v.Reached(key, "u1", lifecycle.Verdict{Run: fmt.Sprint(i)})
	}
	if len(held()) != maxVerdicts {
		t.Errorf("%d verdicts are held, want %d", len(held()), maxVerdicts)
	}
	// A new Service of the same name starts without verdicts.
	v.Reached(key, "u2", lifecycle.Verdict{Run: "c"})
	if len(held()) != 1 || last.Owner != "u2" {
		t.Errorf("%+v", last)
	}
}

// Verdicts are held only for Services that were judged recently.
func TestOldVerdictsAreDropped(t *testing.T) {
	t.Parallel()
	now, reported := time.Unix(0, 0), 0
	v := NewVerdicts(updated(func(observer.Part) { reported++ }))
	v.now = func() time.Time { return now }
	for i := range 10_000 {
		now = now.Add(time.Second)
		key := types.NamespacedName{Namespace: "shop", Name: fmt.Sprintf("pull-%d", i)}
		v.Reached(key, types.UID(key.Name), lifecycle.Verdict{Run: fmt.Sprint(i)})
		if most := int(holdVerdicts/time.Second) + 1; len(v.held) > most {
			t.Fatalf("after %d verdicts, those of %d Services are held", i+1, len(v.held))
		}
	}
	if reported != 10_000 {
		t.Errorf("reported %d verdicts, want 10000", reported)
	}
}

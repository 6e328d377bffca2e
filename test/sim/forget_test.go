// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// forgotten lets a user have a Service forgotten while events about it are pending. The process dies at the
// given side effect from then on, 0 for none. A standby watches, and takes over if it does.
func forgotten(t *testing.T, death int) *world {
	t.Helper()
	w, leads, standsBy := pair(t)
	w.cluster.create("cart")
	w.cluster.to("cart", 100, 1)
	for _, p := range []*process{leads, standsBy} {
		w.rest(p)
	}
	w.cluster.revise(w.cluster.of("cart"))
	w.cluster.to("cart", 50, 1, 50, 2)
	name := ledger.Name(v1alpha1.CDEventSubjectSpec{Kind: kindName, UID: w.cluster.of("cart").uid})
	before := w.store.Peek(name).UID
	for range 4 {
		leads.next(logRoutes)
		leads.reconcile()
	}
	w.store.Annotate(name, v1alpha1.ForgetAnnotation, "true")
	w.dieIn = death
	for _, p := range []*process{leads, standsBy, leads} {
		if slices.Contains(w.processes, p) {
			w.alive(p, func() { w.rest(p) })
		}
	}
	w.dieIn = 0
	if !slices.Contains(w.processes, leads) {
		standsBy.lead()
		if err := standsBy.ledger.Collect(standsBy.ctx, w.cluster.now, histories); err != nil {
			t.Fatal(err)
		}
	}
	w.settle()
	if o := w.store.Peek(name); o == nil || o.UID == before || o.Annotations[v1alpha1.ForgetAnnotation] != "" {
		t.Errorf("crash at %d: the entry is %+v, want a new one", death, o)
	}
	return w
}

// A Service that is forgotten is announced as a new one is, in the state that it has then. Whatever dies, nothing
// restores what was forgotten, and it is not forgotten twice.
func TestForgottenServiceIsAnnouncedAnew(t *testing.T) {
	w := forgotten(t, 0)
	told := w.told()
	first := []string{"created", "ready", "deployed", "published"}
	if !slices.Equal(told[:len(first)], first) {
		t.Fatalf("announced %q, want %q first", told, first)
	}
	again := told[len(first):]
	for _, typ := range []string{"created", "deployed", "published"} {
		if n := len(slices.DeleteFunc(slices.Clone(again), func(s string) bool { return s != typ })); n != 1 {
			t.Errorf("announced %q after it was forgotten, want %s once", again, typ)
		}
	}
	report(t, w, "without a crash")
	for death := 1; death <= 40; death++ {
		w := forgotten(t, death)
		if got := w.told(); len(slices.DeleteFunc(got, func(s string) bool { return s != "created" })) != 2 {
			t.Errorf("crash at %d: announced %q, want created twice", death, w.told())
		}
		report(t, w, fmt.Sprintf("crash at side effect %d", death))
	}
}

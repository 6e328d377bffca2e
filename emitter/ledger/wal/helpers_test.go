// SPDX-License-Identifier: Apache-2.0

package wal_test

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger/wal"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// process is a process with a log, and what it was told.
type process struct {
	*wal.Log
	t    *testing.T
	s    *store.Store
	seen int
	told []*v1alpha1.CDEventSubject
}

// start starts a process from a list of everything.
func start(t *testing.T, s *store.Store, slots int) *process {
	t.Helper()
	return startWith(t, s, s, slots)
}

// startWith does so with a client of its own.
func startWith(t *testing.T, client wal.Client, s *store.Store, slots int) *process {
	t.Helper()
	p := &process{t: t, s: s}
	p.Log = ledger.NewLog(client, wal.Options{
		Slots: slots, Leads: func(types.NamespacedName) bool { return true }, Tell: func(o *v1alpha1.CDEventSubject) { p.told = append(p.told, o) },
		Checkpoints: wal.Checkpoints{Rate: 1000},
	})
	p.relist()
	p.Start(t.Context())
	return p
}

// slots makes all slots, as the controller does when it starts.
func (p *process) slots() {
	p.t.Helper()
	if err := p.MakeSlots(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
}

// relist lets the informer list again, and deliver in the order of names.
func (p *process) relist() {
	p.seen = len(p.s.Changes(0))
	for _, o := range p.s.All() {
		p.Observe(p.t.Context(), o)
	}
}

// follow lets the informer deliver what it has not delivered yet.
func (p *process) follow() {
	for _, c := range p.s.Changes(p.seen) {
		if p.seen++; c.Deleted {
			p.Forget(c.Object, true)
			continue
		}
		p.Observe(p.t.Context(), c.Object)
	}
}

func subject(name string) *v1alpha1.CDEventSubject {
	return &v1alpha1.CDEventSubject{
		ObjectMeta: metav1.ObjectMeta{Name: "service-" + name},
		Spec:       v1alpha1.CDEventSubjectSpec{APIVersion: "serving.knative.dev/v1", Kind: "Service", Namespace: "shop", Name: name, UID: types.UID(name)},
	}
}

// create creates a CDEventSubject.
func (p *process) create(name string) *v1alpha1.CDEventSubject {
	p.t.Helper()
	o, err := p.Create(p.t.Context(), subject(name), metav1.CreateOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	return o
}

// next is the next state of a CDEventSubject, which says something.
func next(o *v1alpha1.CDEventSubject, says string) *v1alpha1.CDEventSubject {
	out := o.DeepCopy()
	out.Status.LastEvent = says
	return out
}

// update commits what a CDEventSubject says next.
func (p *process) update(o *v1alpha1.CDEventSubject, says string) *v1alpha1.CDEventSubject {
	p.t.Helper()
	o, err := p.Update(p.t.Context(), next(o, says), metav1.UpdateOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	return o
}

// updates commits n changes of a CDEventSubject, which say their number.
func (p *process) updates(o *v1alpha1.CDEventSubject, n int) *v1alpha1.CDEventSubject {
	p.t.Helper()
	for i := range n {
		o = p.update(o, fmt.Sprint(i))
	}
	return o
}

// restoration is the next state of a CDEventSubject that was deleted, as the ledger creates it again.
func restoration(o *v1alpha1.CDEventSubject, says string) *v1alpha1.CDEventSubject {
	out := next(o, says)
	out.ObjectMeta = metav1.ObjectMeta{Name: o.Name}
	return out
}

// end commits the last state of a CDEventSubject, without a checkpoint.
func (p *process) end(o *v1alpha1.CDEventSubject) {
	p.t.Helper()
	last := next(o, "gone")
	last.Status.Removed = true
	if _, err := p.Update(p.t.Context(), last, metav1.UpdateOptions{}); err != nil {
		p.t.Fatal(err)
	}
}

// says returns what the newest state that a process knows says.
func (p *process) says(name string) string {
	p.t.Helper()
	o, err := p.Get(context.Background(), "service-"+name, metav1.GetOptions{})
	if err != nil {
		return fmt.Sprint(err)
	}
	return o.Status.LastEvent
}

func (p *process) want(name, says string) {
	p.t.Helper()
	if got := p.says(name); got != says {
		p.t.Errorf("%s says %q, want %q", name, got, says)
	}
}

// view is what users see of everything.
func view(s *store.Store) map[string]string {
	var all []v1alpha1.CDEventSubject
	for _, o := range s.All() {
		all = append(all, *o)
	}
	out := map[string]string{}
	for _, o := range ledger.WithSlots(all) {
		out[o.Spec.Name] = o.Status.LastEvent
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// One finished entry cannot be deleted. The others are.
func TestEntryThatCannotBeDeletedKeepsNoOther(t *testing.T) {
	s := store.New()
	l, q := queued(s, everyone{"a"}, &counts{})
	for i := range 3 {
		must(t, l.Journal(context.Background(), service(i), func(*v1alpha1.CDEventSubject) (*ledger.Change, error) {
			return &ledger.Change{Memory: lifecycle.Memory{Sequence: 1, Removed: true}, Transitions: []lifecycle.Transition{{Sequence: 1, Time: noon, Type: lifecycle.Removed}}}, nil
		}))
		acknowledge(l, ledger.Name(service(i)), "a", 1)
	}
	must(t, q.write(l))
	s.Before = func(verb, name string) error {
		if verb == "delete" && name == ledger.Name(service(0)) {
			return apierrors.NewForbidden(v1alpha1.SubjectResource.GroupResource(), name, errors.New("a policy denies it"))
		}
		return nil
	}
	for i := range 5 {
		_ = l.Collect(context.Background(), noon.Add(time.Duration(i)*time.Hour), time.Minute)
	}
	if n := len(s.Names()); n != 1 {
		t.Errorf("%d entries are left, want 1", n)
	}
}

// More finished entries than an outage is tried with cannot be deleted. The others are.
func TestManyEntriesThatCannotBeDeletedKeepNoOther(t *testing.T) {
	s := store.New()
	l, q := queued(s, everyone{"a"}, &counts{})
	for i := range 40 {
		must(t, l.Journal(context.Background(), service(i), func(*v1alpha1.CDEventSubject) (*ledger.Change, error) {
			return &ledger.Change{Memory: lifecycle.Memory{Sequence: 1, Removed: true}, Transitions: []lifecycle.Transition{{Sequence: 1, Time: noon, Type: lifecycle.Removed}}}, nil
		}))
		acknowledge(l, ledger.Name(service(i)), "a", 1)
	}
	must(t, q.write(l))
	denied := map[string]bool{}
	for _, name := range s.Names()[:20] {
		denied[name] = true
	}
	s.Before = func(verb, name string) error {
		if verb == "delete" && denied[name] {
			return apierrors.NewForbidden(v1alpha1.SubjectResource.GroupResource(), name, errors.New("a policy denies it"))
		}
		return nil
	}
	for i := range 10 {
		_ = l.Collect(context.Background(), noon.Add(time.Duration(i)*time.Minute), 5*time.Minute)
	}
	if n := len(s.Names()); n != len(denied) {
		t.Errorf("%d entries are left, want %d", n, len(denied))
	}
}

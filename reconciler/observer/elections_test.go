// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// slowKind calls a function when its keys are listed, as when a process begins to lead.
type slowKind struct {
	Kind
	listed func()
}

func (k slowKind) Keys() []types.NamespacedName { k.listed(); return nil }
func (slowKind) APIVersion() string             { return "example.com/v1" }
func (slowKind) Name() string                   { return "Thing" }

// The lead is lost while a kind is added. Its observer does not lead on.
func TestLeadLostWhileAKindIsAdded(t *testing.T) {
	r := NewRegistry()
	both := map[string]reconciler.Bucket{"even": named("even"), "odd": named("odd")}
	for _, b := range both {
		if err := r.Promote(b, func(reconciler.Bucket, types.NamespacedName) {}); err != nil {
			t.Fatal(err)
		}
	}
	first := true
	done := make(chan struct{})
	k := slowKind{listed: func() {
		if !first {
			return
		}
		first = false
		go func() { // the election
			defer close(done)
			for _, b := range both {
				r.Demote(b)
			}
		}()
		select {
		case <-done:
		case <-after50ms():
		}
	}}
	ob := r.Observe(Options{Kind: k, Ledger: noEntries{}}, noKeys{})
	<-done
	if key := (types.NamespacedName{Name: "x"}); ob.IsLeaderFor(key) && !r.IsLeaderFor(key) {
		t.Error("the observer leads for an object that this process does not lead for")
	}
}

type named string

func (n named) Name() string                { return string(n) }
func (named) Has(types.NamespacedName) bool { return true }

func after50ms() <-chan time.Time { return time.After(50 * time.Millisecond) }

type noEntries struct{}

func (noEntries) Subjects(ledger.Key) []*v1alpha1.CDEventSubject { return nil }
func (noEntries) Keys() []ledger.Key                             { return nil }
func (noEntries) Journal(context.Context, v1alpha1.CDEventSubjectSpec, ledger.Decide) error {
	return nil
}

func (noEntries) MayHaveForgotten(context.Context, v1alpha1.CDEventSubjectSpec, time.Time) (bool, error) {
	return false, nil
}
func (noEntries) Replays(*v1alpha1.CDEventSubject, func() ledger.Labels) []types.UID { return nil }

type noKeys struct{}

func (noKeys) EnqueueKey(types.NamespacedName)     {}
func (noKeys) EnqueueSlowKey(types.NamespacedName) {}

// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// requeue returns the requeue delay in Reconcile's result; 0 if there is none.
func requeue(err error) time.Duration {
	_, after := controller.IsRequeueKey(err)
	return after
}

type standing struct {
	pending      int64
	oldest, last time.Time
	trouble      string
}

func (s *standing) SourceStatus(types.UID) (int64, time.Time, time.Time, string) {
	return s.pending, s.oldest, s.last, s.trouble
}

func TestKeys(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	ctx := t.Context()
	if err := h.Reconcile(ctx, "too/many/parts"); !controller.IsPermanentError(err) {
		t.Error(err)
	}
	if err := h.Reconcile(ctx, "shop/none"); err != nil {
		t.Error(err)
	}
	h.Demote(reconciler.UniversalBucket())
	if err := h.indexer.Add(newSource()); err != nil {
		t.Fatal(err)
	}
	if err := h.Reconcile(ctx, "shop/all"); !controller.IsSkipKey(err) {
		t.Error(err)
	}
	if len(h.requests) > 0 {
		t.Error("written:", h.requests)
	}
}

func TestDeletingSourceIsIgnored(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	s := newSource(func(s *v1alpha1.CDEventSource) { s.DeletionTimestamp = &metav1.Time{Time: start} })
	if err := h.indexer.Add(s); err != nil {
		t.Fatal(err)
	}
	if err := h.Reconcile(t.Context(), "shop/all"); err != nil || len(h.requests) > 0 {
		t.Error(err, h.requests)
	}
}

func TestDeletedBetweenReadAndWrite(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	s := newSource()
	if err := h.write(t.Context(), s, newSource(func(s *v1alpha1.CDEventSource) { s.Status.Pending = 1 })); err != nil {
		t.Error(err)
	}
}

func TestStatusIsWrittenOnceAndOnlyTheStatus(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	got := h.settle(newSource())
	if !got.Status.IsReady() || got.Status.SinkURI.String() != "http://sink.example" || got.Status.ObservedGeneration != 1 {
		t.Errorf("%+v", got.Status)
	}
	for range 3 {
		h.clock = h.clock.Add(time.Minute)
		h.again(got)
	}
	if len(h.requests) != 1 {
		t.Errorf("requests: %q", h.requests)
	}
	h.readOnly()
}

func TestDeliveriesAreWrittenAtMostEveryTenSeconds(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	stand := &standing{}
	h.deliveries = stand
	s := h.settle(newSource())
	if len(h.requests) != 1 {
		t.Fatal(h.requests)
	}
	for range 20 { // 20 s in steps of one second
		h.clock = h.clock.Add(time.Second)
		stand.pending++
		stand.last = h.clock
		stand.trouble = h.clock.String()
		s = h.again(s)
	}
	if n := len(h.requests); n != 3 {
		t.Errorf("%d writes in 20 s", n)
	}
	if s.Status.Pending != 20 {
		t.Errorf("pending %d", s.Status.Pending)
	}
	// A change by the user does not wait.
	changed := s.DeepCopy()
	changed.Generation = 2
	h.clock = h.clock.Add(time.Second)
	if s = h.settle(changed); s.Status.ObservedGeneration != 2 || len(h.requests) != 4 {
		t.Errorf("generation %d after %d writes", s.Status.ObservedGeneration, len(h.requests))
	}
}

func TestConflictIsRetriedSoon(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	stand := &standing{}
	h.deliveries = stand
	h.settle(newSource())
	h.clock = h.clock.Add(7 * time.Second)
	stand.pending = 1
	if after := requeue(h.Reconcile(t.Context(), "shop/all")); after != 3*time.Second {
		t.Errorf("requeued after %v", after)
	}
}

func TestDeliveringDoesNotAffectReady(t *testing.T) {
	t.Parallel()
	long, short := start.Add(-time.Hour), start.Add(-time.Second)
	tests := []struct {
		name           string
		stand          standing
		status, reason string
		says           string
	}{
		{"nothing sent", standing{}, "Unknown", "NothingSentYet", "No event"},
		{"all sent", standing{last: short}, "True", "", ""},
		{"just pending", standing{pending: 1, oldest: short, last: long}, "True", "", ""},
		{"trouble", standing{pending: 1, oldest: long, trouble: "sending to http://sink.example: 503 50%"}, "False", "SinkFails", "503 50%"},
		{"another process sends", standing{pending: 1, oldest: long}, "Unknown", "Waiting", "2026-11-21T08:00:00Z"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			h.deliveries = &tc.stand
			s := h.settle(newSource())
			c := s.Status.GetCondition(v1alpha1.SourceConditionDelivering)
			if c == nil || string(c.Status) != tc.status || c.Reason != tc.reason || !contains(c.Message, tc.says) {
				t.Errorf("%+v", c)
			}
			if !s.Status.IsReady() {
				t.Error("Delivering made the source not Ready")
			}
		})
	}
}

func TestLastDeliveryNeverGoesBack(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	stand := &standing{last: start, pending: 2, oldest: start.Add(1234567 * time.Nanosecond)}
	h.deliveries = stand
	s := h.settle(newSource())
	if got := s.Status.OldestPending.Time; !got.Equal(start.Add(1234 * time.Microsecond)) {
		t.Errorf("oldest %v", got)
	}
	*stand = standing{} // another process sends now
	h.clock = h.clock.Add(time.Minute)
	s = h.again(s)
	if s.Status.LastDelivery == nil || !s.Status.LastDelivery.Time.Equal(start) || s.Status.OldestPending != nil || s.Status.Pending != 0 {
		t.Errorf("%+v", s.Status)
	}
}

func TestTransitionTimesChangeOnlyWithConditions(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	s := newSource(to(broker))
	s = h.settle(s)
	old := metav1.NewTime(start.Add(-time.Hour))
	for i := range s.Status.Conditions {
		s.Status.Conditions[i].LastTransitionTime.Inner = old
	}
	s = s.DeepCopy()
	s.Spec.Sink.Ref.Name = "other"
	s.Generation = 2
	s = h.settle(s)
	c := s.Status.GetCondition(v1alpha1.SourceConditionSinkProvided)
	if !contains(c.Message, "Broker other") || !c.LastTransitionTime.Inner.Equal(&old) {
		t.Errorf("%+v", c)
	}
}

func TestPromotionEnqueuesAll(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.PromoteFunc = h.promote
	for _, name := range []string{"a", "b", "c"} {
		if err := h.indexer.Add(newSource(func(s *v1alpha1.CDEventSource) { s.Name = name })); err != nil {
			t.Fatal(err)
		}
	}
	var keys []string
	enqueue := func(_ reconciler.Bucket, key types.NamespacedName) { keys = append(keys, key.String()) }
	if err := h.Promote(reconciler.UniversalBucket(), enqueue); err != nil || len(keys) != 3 {
		t.Error(err, keys)
	}
}

func TestFailedWriteIsRetried(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	s := newSource()
	if err := h.indexer.Add(s); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := t.Context(), func() {}
	defer cancel()
	h.client = newUnreachable(t)
	err := h.Reconcile(ctx, "shop/all")
	if err == nil || requeue(err) > 0 || controller.IsPermanentError(err) || errors.Is(err, nil) {
		t.Error(err)
	}
	if h.written.wait(types.NamespacedName{Namespace: "shop", Name: "all"}, h.clock) > 0 {
		t.Error("a failed write delays the next one")
	}
}

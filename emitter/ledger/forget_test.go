// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// follow lets the informer deliver what it has not delivered yet.
func follow(s *store.Store, l *ledger.Ledger, seen *int) {
	for _, c := range s.Changes(*seen) {
		if *seen++; c.Deleted {
			l.Forget(c.Object, true)
		} else {
			l.Observe(c.Object)
		}
	}
}

func TestAnnotatedEntryIsForgotten(t *testing.T) {
	s, c, seen := store.New(), &counts{}, 0
	l, q := queued(s, everyone{"a", "b"}, c)
	must(t, add(l, lifecycle.Deployed, ""))
	must(t, add(l, lifecycle.Upgraded, ""))
	name := ledger.Name(cart)
	acknowledge(l, name, "a", 1)
	s.Annotate(name, v1alpha1.ForgetAnnotation, "true")
	follow(s, l, &seen)
	must(t, q.write(l))
	if s.Has(name) {
		t.Fatalf("still there: %+v", s.Peek(name))
	}
	if got := c.dropped[ledger.DroppedForgotten]; got != 3 {
		t.Errorf("%d events counted as dropped, want the 3 that were pending", got)
	}
	follow(s, l, &seen)
	must(t, add(l, lifecycle.Deployed, "")) // it is a new one
	if got := s.Peek(name); got == nil || got.Status.Sequence != 1 || len(got.Annotations) > 0 {
		t.Fatalf("after the next transition: %+v", got)
	}
	if got := sequences(l.Pending(key, "b")); got != "1" {
		t.Errorf("pending %q, want 1", got)
	}
}

// Only the leader may forget.
func TestAnnotationIsNoReasonForOthers(t *testing.T) {
	s, seen, leads := store.New(), 0, newLeader()
	a := &acks{}
	l := ledger.New(s, everyone{"a"}, &counts{}, ledger.WithAcks(a), ledger.WithLeader(leads))
	must(t, add(l, lifecycle.Deployed, ""))
	name := ledger.Name(cart)
	s.Annotate(name, v1alpha1.ForgetAnnotation, "false")
	follow(s, l, &seen)
	must(t, a.write(l))
	if !s.Has(name) {
		t.Error("it is forgotten although the annotation says no")
	}
	leads.Store(false)
	s.Annotate(name, v1alpha1.ForgetAnnotation, "true")
	follow(s, l, &seen)
	must(t, a.write(l))
	if !s.Has(name) {
		t.Fatal("a replica that does not lead has forgotten it")
	}
	leads.Store(true) // the former leader has not done it
	must(t, l.Collect(context.Background(), time.Now(), time.Hour))
	must(t, a.write(l))
	if s.Has(name) {
		t.Error("the next leader has not forgotten it")
	}
}

// prompt is a client whose informer sees what is created before the answer to the request arrives.
type prompt struct {
	*store.Store
	created func()
}

func (p *prompt) Create(ctx context.Context, o *v1alpha1.CDEventSubject, opts metav1.CreateOptions) (*v1alpha1.CDEventSubject, error) {
	out, err := p.Store.Create(ctx, o, opts)
	p.created()
	return out, err
}

// An entry is forgotten while the next transition waits to be written. The informer sees the end before that write, and
// the new entry before its answer. What is sent then is acknowledged once and for all.
func TestForgottenWhileTheNextTransitionWaits(t *testing.T) {
	client, seen := &prompt{Store: store.New(), created: func() {}}, 0
	l, q := queued(client, everyone{"a"}, &counts{})
	must(t, add(l, lifecycle.Deployed, ""))
	name := ledger.Name(cart)
	acknowledge(l, name, "a", 1)
	must(t, q.write(l))
	client.Annotate(name, v1alpha1.ForgetAnnotation, "true")
	follow(client.Store, l, &seen)
	must(t, q.write(l))
	client.created = func() {
		follow(client.Store, l, &seen)
		if got := sequences(l.Pending(key, "a")); got != "1" {
			t.Errorf("pending %q when the informer has seen the entry, want 1", got)
		}
		acknowledge(l, name, "a", 1)
	}
	must(t, l.Journal(context.Background(), cart, func(*v1alpha1.CDEventSubject) (*ledger.Change, error) {
		follow(client.Store, l, &seen) // it is gone
		return &ledger.Change{Memory: lifecycle.Memory{Sequence: 1}, Transitions: []lifecycle.Transition{{Sequence: 1, Time: noon, Type: lifecycle.Deployed}}}, nil
	}))
	if got := sequences(l.Pending(key, "a")); got != "" {
		t.Errorf("%q is sent again", got)
	}
}

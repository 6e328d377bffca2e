// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// After a restore, a process must not write what it remembers from before.
func TestNothingIsWrittenAfterAPIServerWentBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		happens func(e *emitting, entry *v1alpha1.CDEventSubject)
		undone  bool
	}{
		"an older version of an entry": {func(e *emitting, entry *v1alpha1.CDEventSubject) {
			was := entry.DeepCopy()
			was.ResourceVersion = "1" + was.ResourceVersion
			e.subjectsFollowed().OnUpdate(was, entry)
		}, true},
		"an older version of a Service": {func(e *emitting, _ *v1alpha1.CDEventSubject) {
			e.services.Load().Updated("8", cartKey, observer.Part{Name: "service", Version: "7", Root: true})
		}, true},
		"the same version of an entry": {func(e *emitting, entry *v1alpha1.CDEventSubject) {
			e.subjectsFollowed().OnUpdate(entry, entry)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, s, _ := following(t)
			source := aged("shop", 1)
			if err := e.sources.GetIndexer().Add(source); err != nil {
				t.Fatal(err)
			}
			spec := v1alpha1.CDEventSubjectSpec{Kind: "Service", Namespace: cartKey.Namespace, Name: cartKey.Name, UID: "u1"}
			err := e.ledger.Journal(t.Context(), spec, func(*v1alpha1.CDEventSubject) (*ledger.Change, error) {
				return &ledger.Change{Memory: lifecycle.Memory{Sequence: 2}, Transitions: []lifecycle.Transition{
					{Sequence: 1, Time: time.Now(), Type: lifecycle.Created}, {Sequence: 2, Time: time.Now(), Type: lifecycle.Deployed},
				}}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			entry := s.Peek(ledger.Name(spec)).DeepCopy()
			e.ledger.Acknowledge(entry.Name, source.UID, 1)
			c.happens(e, entry)
			e.ledger.Acknowledge(entry.Name, source.UID, 2)
			if got := errors.Is(context.Cause(e.stopping), errReverted); got != c.undone {
				t.Errorf("the process stops to start again: %v, want %v", got, c.undone)
			}
			ctx, stop := context.WithCancel(t.Context())
			stop()
			e.ledger.Run(ctx, 1) // writes pending acknowledgements before it returns
			if got := s.All()[0].Status.Acknowledged[source.UID]; (got == 0) != c.undone {
				t.Errorf("acknowledged up to %d in the ledger", got)
			}
		})
	}
}

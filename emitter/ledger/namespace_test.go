// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"errors"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// labelled is a router that knows the labels of a namespace. Nil labels mean that the
// namespace does not exist.
type labelled struct {
	everyone
	labels map[string]string
	fails  error
	asked  []ledger.Labels
}

func (e *labelled) NamespaceLabels(string) (labels map[string]string, exists bool, err error) {
	return e.labels, e.labels != nil, e.fails
}

func (e *labelled) Recipients(s v1alpha1.CDEventSubjectSpec, l ledger.Labels, t lifecycle.Transition) []ledger.Recipient {
	e.asked = append(e.asked, l)
	return e.everyone.Recipients(s, l, t)
}

// The labels of the namespace decide which sources receive an event.
func TestNothingIsJournaledWithoutNamespaceLabels(t *testing.T) {
	s := store.New()
	r := &labelled{everyone: everyone{"a"}, fails: errors.New("no answer")}
	l := ledger.New(s, r, &counts{})
	if err := add(l, lifecycle.Deployed, ""); !errors.Is(err, r.fails) {
		t.Errorf("got %v", err)
	}
	if len(r.asked) != 0 || s.Writes() != 0 {
		t.Errorf("%d calls of Recipients, %d writes, want none", len(r.asked), s.Writes())
	}
	r.fails, r.labels = nil, map[string]string{"team": "shop"}
	must(t, add(l, lifecycle.Deployed, ""))
	if len(r.asked) != 1 || r.asked[0].Namespace["team"] != "shop" {
		t.Errorf("routed with the labels %v", r.asked)
	}
}

func TestNamespaceLabelsOutliveTheNamespace(t *testing.T) {
	s := store.New()
	r := &labelled{everyone: everyone{"a"}, labels: map[string]string{"team": "shop"}}
	l := ledger.New(s, r, &counts{})
	must(t, add(l, lifecycle.Deployed, ""))
	r.labels = nil
	must(t, add(l, lifecycle.Removed, ""))
	if len(r.asked) != 2 || r.asked[1].Namespace["team"] != "shop" {
		t.Errorf("routed with the labels %+v", r.asked)
	}
}

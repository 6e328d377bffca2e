// SPDX-License-Identifier: Apache-2.0

// Package journal has a router and metrics for the ledgers of tests in which no source exists.
package journal

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Unread is a router without recipients, and counts nothing.
type Unread struct{}

var (
	_ ledger.Router  = Unread{}
	_ ledger.Metrics = Unread{}
)

// Recipients implements ledger.Router.
func (Unread) Recipients(v1alpha1.CDEventSubjectSpec, ledger.Labels, lifecycle.Transition) []ledger.Recipient {
	return nil
}

// NamespaceLabels implements ledger.Router.
func (Unread) NamespaceLabels(string) (map[string]string, bool, error) { return nil, false, nil }

// Replays implements ledger.Router.
func (Unread) Replays(v1alpha1.CDEventSubjectSpec, []types.UID, func() ledger.Labels) []types.UID {
	return nil
}

// Exists implements ledger.Router.
func (Unread) Exists(types.UID) bool { return false }

// Operator implements ledger.Router.
func (Unread) Operator(types.UID) bool { return false }

// Conflict implements ledger.Metrics.
func (Unread) Conflict() {}

// Refused implements ledger.Metrics.
func (Unread) Refused() {}

// Dropped implements ledger.Metrics.
func (Unread) Dropped(string, int64) {}

// Record is Unread, and remembers what a ledger journals.
type Record struct {
	Unread

	mu  sync.Mutex
	got map[string][]lifecycle.Type
}

// Recipients implements ledger.Router.
func (r *Record) Recipients(about v1alpha1.CDEventSubjectSpec, _ ledger.Labels, t lifecycle.Transition) []ledger.Recipient {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.got == nil {
		r.got = map[string][]lifecycle.Type{}
	}
	o := about.Kind + "/" + about.Name
	r.got[o] = append(r.got[o], t.Type)
	return nil
}

// Of returns the types of the transitions of an object, such as Service/cart, in order.
func (r *Record) Of(object string) []lifecycle.Type {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got[object])
}

// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// asked is a router without recipients. It records the labels that it was called with.
type asked struct {
	plain
	last ledger.Labels
}

func (a *asked) Recipients(_ v1alpha1.CDEventSubjectSpec, l ledger.Labels, _ lifecycle.Transition) []ledger.Recipient {
	a.last = l
	return nil
}

func TestRemovedUsesTheLatestLabels(t *testing.T) {
	ctx, s, router, kind := t.Context(), store.New(), &asked{},
		&plain{live: "uid-x", created: time.Unix(0, 0), rules: lifecycle.DefaultRules}
	l := ledger.New(s, router, router)
	o := leading(t, kind, l, time.Now)
	key := types.NamespacedName{Namespace: "shop", Name: "cart"}
	see := func(version string, value any) {
		t.Helper()
		o.Update(key, Part{Name: "service", Version: version, Root: true, Owner: "uid-x", Value: value})
		if err := o.Reconcile(ctx, key.String()); err != nil {
			t.Fatal(err)
		}
	}
	x, y := map[string]string{"tier": "x"}, map[string]string{"tier": "y"}
	see("1", lifecycle.Snapshot{Labels: x})
	see("2", lifecycle.Snapshot{Labels: x, Generation: 2}) // not saved
	see("3", lifecycle.Snapshot{Labels: y, Generation: 2})
	writes := s.Writes()
	see("4", lifecycle.Snapshot{Labels: y, Generation: 3})
	if s.Writes() != writes {
		t.Errorf("%d writes, although nothing had to be saved", s.Writes()-writes)
	}
	kind.live = ""
	see("5", nil)
	if router.last.Own["tier"] != "y" {
		t.Errorf("removed was routed with the labels %v", router.last.Own)
	}
}

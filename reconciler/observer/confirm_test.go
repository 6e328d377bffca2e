// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// An outage is announced only of a state that the API server still has when the limit is over. Before, nobody is asked.
func TestOutageIsConfirmedBeforeItIsAnnounced(t *testing.T) {
	for name, c := range map[string]struct {
		// then is what happens when the limit is over.
		then     func(k *plain, see func(string, lifecycle.Snapshot))
		detected bool
	}{
		"it lasts":       {func(*plain, func(string, lifecycle.Snapshot)) {}, true},
		"the watch lags": {func(k *plain, _ func(string, lifecycle.Snapshot)) { k.behind = true }, false},
		"the API server does not answer": {func(k *plain,
			_ func(string, lifecycle.Snapshot),
		) {
			k.unreachable = errors.New("away")
		}, false},
		"the process was paused, and reads": {func(_ *plain,
			see func(string, lifecycle.Snapshot),
		) {
			see("3", lifecycle.Snapshot{Ready: true})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			router, kind := &asked{}, &plain{live: "uid-x", created: time.Unix(0, 0), rules: lifecycle.DefaultRules}
			l := ledger.New(store.New(), router, router)
			o := leading(t, kind, l, func() time.Time { return now })
			key := types.NamespacedName{Namespace: "shop", Name: "cart"}
			see := func(version string, s lifecycle.Snapshot) {
				o.Update(key, Part{Name: "service", Version: version, Root: true, Owner: "uid-x", Value: s})
			}
			fold := func() { _ = o.Reconcile(t.Context(), key.String()) } // it asks for a requeue, which is no failure
			see("1", lifecycle.Snapshot{Ready: true})
			fold()
			see("2", lifecycle.Snapshot{Trouble: map[lifecycle.Incident]*lifecycle.Trouble{lifecycle.Outage: {Reason: "Uninitialized"}}})
			fold()
			now = now.Add(30 * time.Second)
			fold()
			if kind.asked > 0 {
				t.Errorf("asked %d times before anything is due", kind.asked)
			}
			now = now.Add(45 * time.Second)
			c.then(kind, see)
			fold()
			fold()
			got := int64(0)
			for _, s := range l.Subjects(o.ledgerKey(key)) {
				got += s.Status.Sequence
			}
			if (got > 0) != c.detected {
				t.Errorf("%d transitions", got)
			}
		})
	}
}

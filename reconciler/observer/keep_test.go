// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// Each leader takes about 20 s to take over, and may die before it journals anything. So a
// standby keeps its history for longer than several leader elections.
func TestStandbyKeepsHistoryAcrossSeveralLeaders(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	router := &asked{}
	o := New(Options{
		Kind: &plain{}, Ledger: ledger.New(store.New(), router, router),
		Now: func() time.Time { return now },
	})
	o.Bind(&plain{})
	o.Start()
	key := types.NamespacedName{Namespace: "shop", Name: "cart"}
	for i := range 10 {
		o.Update(key, Part{Name: "service", Version: fmt.Sprint(i + 1), Root: true, Owner: "uid-x", Value: i})
		now = now.Add(25 * time.Second)
		o.Tidy()
	}
	if got := len(o.tracks[key].updates); got != 10 {
		t.Errorf("after ten leaders, %d of 10 states are kept", got)
	}
	now = now.Add(10 * time.Minute)
	o.Tidy()
	if got := len(o.tracks[key].updates); got != 0 {
		t.Errorf("%d states are never dropped", got)
	}
}

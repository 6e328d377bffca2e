// SPDX-License-Identifier: Apache-2.0

package wal_test

import (
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// What users write into the metadata of an entry stays, also while only the log has its newest state.
func TestAnnotationsStay(t *testing.T) {
	t.Parallel()
	s := store.New()
	p := start(t, s, 4)
	cart := p.update(p.create("cart"), "first")
	p.follow()
	s.Annotate("service-cart", "example.com/owner", "ann")
	p.follow()
	if got := p.told[len(p.told)-1]; got.Annotations["example.com/owner"] != "ann" || got.Status.LastEvent != "first" || got.ResourceVersion != cart.ResourceVersion {
		t.Errorf("told of %+v, want the newest state with the annotation", got)
	}
	cart = p.update(cart, "second")
	other := start(t, s, 4)
	for range 2 {
		for i := range 2 {
			if err := p.Checkpoint(t.Context(), time.Now().Add(time.Duration(i)*time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.Peek("service-cart"); got.Annotations["example.com/owner"] != "ann" || got.Status.LastEvent != "second" {
			t.Errorf("the checkpoint is %+v, want the annotation with the newest state", got)
		}
		p = other // it folded the states from the log
		p.follow()
		p.want("cart", "second")
	}
	p.update(cart, "third")
}

// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"errors"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

func TestRejectedWritesAreCounted(t *testing.T) {
	s := store.New()
	c := &counts{}
	l := ledger.New(s, everyone{"a"}, c)
	s.Before = func(string, string) error { return errors.New("etcdserver: request is too large") }
	if err := add(l, lifecycle.Deployed, ""); err == nil || c.refused != 1 {
		t.Errorf("%v, %d rejected writes counted, want 1", err, c.refused)
	}
}

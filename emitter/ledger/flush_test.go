// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// A write fails once while the process ends. There is time to repeat it.
func TestLastAcknowledgementsAreWrittenDespiteAnError(t *testing.T) {
	s := store.New()
	l := ledger.New(s, everyone{"a"}, &counts{})
	must(t, add(l, lifecycle.Deployed, ""))
	acknowledge(l, ledger.Name(cart), "a", 1)
	var failures atomic.Int64
	s.Before = func(verb, _ string) error {
		if verb == "update" && failures.Add(1) == 1 {
			return apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
		}
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx, 2) }()
	time.Sleep(10 * time.Millisecond)
	cancel()
	<-done
	if o := s.Peek(ledger.Name(cart)); len(o.Status.Journal) > 0 || l.Held() > 0 {
		t.Errorf("%d events are pending, and %d acknowledgements held", len(o.Status.Journal), l.Held())
	}
}

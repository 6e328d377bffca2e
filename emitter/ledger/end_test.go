// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// slow blocks each update until the test lets it proceed or the context ends.
type slow struct {
	*store.Store
	under, let chan struct{}
}

func (s *slow) Update(ctx context.Context, o *v1alpha1.CDEventSubject, opts metav1.UpdateOptions) (*v1alpha1.CDEventSubject, error) {
	s.under <- struct{}{}
	select {
	case <-s.let:
		return s.Store.Update(ctx, o, opts)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestShutdownFinishesAcknowledgements(t *testing.T) {
	s := &slow{Store: store.New(), under: make(chan struct{}), let: make(chan struct{})}
	l := ledger.New(s, everyone{"a"}, &counts{})
	must(t, add(l, lifecycle.Created, ""))
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); l.Run(ctx, 1) }()

	acknowledge(l, ledger.Name(cart), "a", 1)
	<-s.under
	end()
	close(s.let)
	<-ended
	if got := s.All()[0].Status.Acknowledged["a"]; got != 1 {
		t.Errorf("acknowledged up to %d, want 1", got)
	}
}

// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"time"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// acks is a queue of acknowledgements that a test writes explicitly.
type acks struct{ store.Acks }

// queued returns a ledger with such a queue.
func queued(client ledger.Client, router ledger.Router, metrics ledger.Metrics) (*ledger.Ledger, *acks) {
	a := &acks{}
	return ledger.New(client, router, metrics, ledger.WithAcks(a)), a
}

func (a *acks) write(l *ledger.Ledger) error {
	if err := l.WriteTogether(context.Background(), time.Now()); err != nil {
		return err
	}
	return a.Write(func(name string) error { return l.WriteAcks(context.Background(), name) })
}

package ledger_test

import (
	"context"
	"slices"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// acks is a queue of acknowledgements that are written when a test says so.
type acks []string

// Add implements ledger.Acks.
func (a *acks) Add(name string) {
	if !slices.Contains(*a, name) {
		*a = append(*a, name)
	}
}

// queued is a ledger with such a queue.
func queued(client ledger.Client, router ledger.Router, metrics ledger.Metrics) (*ledger.Ledger, *acks) {
	a := &acks{}
	return ledger.New(client, router, metrics, ledger.WithAcks(a)), a
}

// write what is acknowledged now. What cannot be written stays in the queue.
func (a *acks) write(l *ledger.Ledger) error {
	for range len(*a) {
		name := (*a)[0]
		*a = (*a)[1:]
		if err := l.WriteAcks(context.Background(), name); err != nil {
			a.Add(name)
			return err
		}
	}
	return nil
}

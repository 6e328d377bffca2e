// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/emitter/delivery"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// impatient is a ledger that does not wait until it has room for acknowledgements: the step ends, and the object
// has its turn later.
type impatient struct{ *ledger.Ledger }

// Admit implements delivery.Ledger.
func (l impatient) Admit(_ context.Context, name string) bool { return l.HasRoom(name) }

// stepper is a queue without workers and without a clock: a step of the simulation chooses
// the next item from the pending objects of the process.
type stepper struct{}

func (p *process) newQueue(source types.UID, w delivery.Work) delivery.Queue {
	p.work[source] = w
	return stepper{}
}

// Add implements delivery.Queue.
func (stepper) Add(ledger.Key) {}

// Idle implements delivery.Queue.
func (stepper) Idle() bool { return true }

// Close implements delivery.Queue.
func (stepper) Close() {}

// Wait implements delivery.Queue.
func (stepper) Wait() {}

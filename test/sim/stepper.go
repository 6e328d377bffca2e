package sim

import (
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// stepper is a queue without workers and without time: a step of the simulation decides
// whose turn it is, by the process's own list of debts.
type stepper struct{}

func (p *process) newQueue(w delivery.Work) delivery.Queue {
	p.work[w.Source] = w
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

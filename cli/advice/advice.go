// SPDX-License-Identifier: Apache-2.0

// Package advice says why something does not work, and what to do about it.
//
// Its invariant: it is pure. Each finding has one action, for the cause that must be removed first. What
// went wrong is quoted from the object, so that nothing is claimed that the controller did not find.
package advice

import (
	"fmt"
	"time"
)

// State is how bad a finding is.
type State string

// The states.
const (
	// Broken: it does not work, and does not recover by itself.
	Broken State = "broken"
	// Failed: a gate has done its work and failed a canary, and somebody must take away the traffic that it still gets.
	Failed State = "failed"
	// Undecided: a run of a gate has ended without a verdict. The gate works, and nothing more comes of that run.
	Undecided State = "undecided"
	// Waiting: it may recover by itself.
	Waiting State = "waiting"
	// Lost: it did not work, and what was lost does not come back.
	Lost State = "lost"
	// Works: there is nothing to do.
	Works State = "works"
)

// States are all of them, the worst first. Users suffer from a bad canary at once, and from what is not sent later.
func States() []State { return []State{Failed, Broken, Undecided, Waiting, Lost, Works} }

// Finding is something that does not work, or that does.
type Finding struct {
	// Kind, Namespace and Name say what the finding is about.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// State is how bad it is.
	State State `json:"state"`
	// Reason is the reason of a condition or of a verdict, such as SinkNotFound.
	Reason string `json:"reason,omitempty"`
	// What says in a sentence what works or does not.
	What string `json:"what"`
	// Message is what the controller wrote about it.
	Message string `json:"message,omitempty"`
	// Template is the template by which a gate judges, and what of the gate does not apply.
	Template string `json:"template,omitempty"`
	// Do is the one thing to do next. It is empty for what is fine.
	Do string `json:"do,omitempty"`
}

// Clock is the time, and the namespace of the controller.
type Clock struct {
	Now    time.Time
	System string
}

// patience is how long the controller may take to look at an object.
const patience = time.Minute

// unseen is the action for an object that the controller has not looked at.
func (c Clock) unseen() string {
	return fmt.Sprintf("Check that the controller runs: kubectl get pods -n %s", c.System)
}

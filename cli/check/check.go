// SPDX-License-Identifier: Apache-2.0

// Package check looks whether a cluster can do what the product is installed for.
//
// Its invariant: it changes nothing. What it creates, it creates as a dry run. What the user may not see is unknown,
// and never taken for right or wrong.
package check

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/knative-cdevents/knative-cdevents/cli/reader"
)

// State is how a check ended.
type State string

// The states, the worst first.
const (
	// Failure: something does not work.
	Failure State = "failure"
	// Warning: something may not work, or not in all cases.
	Warning State = "warning"
	// Unknown: the user may not see it.
	Unknown State = "unknown"
	OK      State = "ok"
)

// Result is what a check found.
type Result struct {
	// Check is its name.
	Check string `json:"check"`
	State State  `json:"state"`
	// What says in a sentence what was found.
	What string `json:"what"`
	// Do is what would be right, empty if all is well.
	Do string `json:"do,omitempty"`
}

// Checker looks at one cluster.
type Checker struct {
	*reader.Reader
	// Namespace is the one in which the user works, or empty for all.
	Namespace string
	// Now is the clock of this machine.
	Now func() time.Time
	// Election is how long to wait for a leader if a replica is ready and none leads.
	Election time.Duration
}

// tryIn is the namespace for what is only tried.
func (c *Checker) tryIn() string {
	if c.Namespace == "" {
		return "default"
	}
	return c.Namespace
}

// Run runs all checks. The error says that the API server does not answer at all.
func (c *Checker) Run(ctx context.Context) ([]Result, error) {
	version, err := c.ServerVersion(ctx)
	if err != nil {
		return nil, err
	}
	out := []Result{kubernetes(version), c.serving(ctx)}
	definitions := c.definitions(ctx)
	out = append(out, definitions)
	if definitions.State == Failure {
		return out, nil // what follows would only say the same
	}
	out = append(out, c.controller(ctx), c.leases(ctx), c.webhook(ctx), c.refuses(ctx))
	out = append(out, c.rights(ctx)...)
	out = append(out, c.requestMetrics(ctx))
	out = append(out, c.sources(ctx)...)
	return append(out, c.clock(ctx)), nil
}

// Count returns how many results have that state.
func Count(of []Result, state State) int {
	n := 0
	for _, r := range of {
		if r.State == state {
			n++
		}
	}
	return n
}

// unseen is the result of a check whose object could not be read.
func unseen(name string, err error) Result {
	if errors.Is(err, reader.ErrForbidden) {
		return Result{Check: name, State: Unknown, What: err.Error()}
	}
	return Result{Check: name, State: Failure, What: "it could not be found out: " + err.Error(), Do: "Ask again"}
}

func fine(name, format string, args ...any) Result {
	return Result{Check: name, State: OK, What: fmt.Sprintf(format, args...)}
}

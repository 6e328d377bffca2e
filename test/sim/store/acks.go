// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"
	"time"
)

// Acks is a queue of CDEventSubjects with acknowledgements to write. They are written when a
// test, or a step of the simulation, says so.
type Acks []string

// Add implements ledger.Acks. It adds each name once.
func (a *Acks) Add(name string) {
	if !slices.Contains(*a, name) {
		*a = append(*a, name)
	}
}

// AddAfter implements ledger.Acks. It does not wait.
func (a *Acks) AddAfter(name string, _ time.Duration) { a.Add(name) }

// Write writes what is in the queue now. It stops at the first error, and the name that could
// not be written goes to the end of the queue.
func (a *Acks) Write(write func(name string) error) error {
	for range len(*a) {
		name := (*a)[0]
		*a = (*a)[1:]
		if err := write(name); err != nil {
			a.Add(name)
			return err
		}
	}
	return nil
}

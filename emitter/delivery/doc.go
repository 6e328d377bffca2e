// SPDX-License-Identifier: Apache-2.0

// Package delivery sends pending events to the sinks of CDEventSources, and nothing else.
//
// Its invariants:
//
//   - Each source has a queue of its own, with its own workers, connections and breaker. A
//     dead or slow sink delays no other source.
//   - A source receives the events about one object in order, one at a time.
//   - An event stays pending in the ledger until its sink or its dead letter sink has
//     accepted it, or until it is dropped for a reason that is counted.
//
// How an event travels:
//
//	package route    chooses the sources of a transition; the ledger journals it
//	wake.go          the ledger reports the pending event, and its object enters the queue
//	workers.go       a worker takes the object; never two workers the same object
//	sourcequeue.go   deliver reads the object's pending events from the ledger, in order
//	chain.go         try takes each event through the steps that follow
//	prepare.go       render, check the spec, filter, find the sink, respect its pause
//	send.go          wait for a place (ramp.go), check the breaker (breaker.go), send by the
//	                 transport of the sink's scheme (package transport), acknowledge
//	failure.go       after a failure: count it, send a dead letter, drop, or retry later
//
// The other files hold what is known of a source (sources.go, sourcechange.go, sourcestate.go, retries.go), its
// status (status.go), and the metrics (metrics.go).
package delivery

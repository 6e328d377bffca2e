// SPDX-License-Identifier: Apache-2.0

// Package route decides which CDEventSources receive the event of a transition. It sends nothing.
//
// Its invariants:
//
//   - A source receives the events of its own namespace only, unless an operator wrote it.
//   - No selector, filter or number of sources of one namespace costs the others their events, their
//     place in a journal, or the controller's time without a limit.
//   - What cannot be decided is an error, never a yes.
//
// The parts:
//
//	router.go      Router, which the ledger asks; recipients.go chooses
//	selector.go    label selectors, parsed once per generation of a source (generation.go)
//	filters.go     the compiled filters of each source; compile.go compiles them
//	filter.go      how filters are combined, and what an error among them means
//	cesql.go       CESQL expressions; cesqlhint.go suggests a correction
//	check.go       the mistakes in filters, found with samples of all events
//	tenants.go     the limits of each namespace
package route

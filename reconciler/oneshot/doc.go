// SPDX-License-Identifier: Apache-2.0

// Package oneshot is the controller for one request: asked about a Knative Service, it reads the Service as it is now,
// has it observed, journals what follows, sends what is pending, and forgets everything. It is the core of the
// serverless mode. What decides, journals and sends are the packages of the resident controller; this one only fills
// their caches.
//
// Its invariants:
//
//   - Nothing that it keeps between two requests has to be true. Connections, tokens, the credentials that package
//     credentials keeps for a while, and which sinks hang are kept.
//   - It answers without an error only if everything that it saw is journaled, and each pending event is sent, or owed
//     at a time that the ledger has: in the status of the CDEventSubject, and in its WakeAnnotation. After an error,
//     nothing is promised, and whoever asked must ask again.
//   - An end at any point is that of a resident controller: the next request continues from the ledger, with the same
//     bytes.
//   - It may run any number of times at once, for one Service too: the compare-and-swap of the ledger decides.
//   - It reads users' objects, and writes none.
//   - A sweep decides from lists at which Services it looks, by a look that can neither read nor write. Only a look
//     that reads what is there now writes, sends or wakes.
//
// A resident controller keeps in memory what it owes. Whoever switches from it to this one begins with a sweep.
//
// What it cannot see is what came and went between two requests. Trouble that two requests see counts as having lasted
// in between. Since when it lasts is by the clocks of both: an incident is early or late by as much as they differ.
// There is no breaker, and the pause that a sink asks for (Retry-After) applies to the Service whose event it answered.
// Stateful clusters, gates and environments need a controller that stays. It is woken for them: see Measuring.
package oneshot

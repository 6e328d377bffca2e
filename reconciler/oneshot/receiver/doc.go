// SPDX-License-Identifier: Apache-2.0

// Package receiver receives rings over HTTP, and has the one-shot core answer them. A ring is a CloudEvent of
// ApiServerSource, PingSource or the doorbell: it says that an object may have changed, or that it is time to sweep.
//
// Its invariants:
//   - Nothing of a ring is believed. It names an object, which the core reads; who sends a wrong one causes a look.
//   - It answers with 2xx only when the core has returned without an error. With any 4xx that the doorbell does not
//     repeat, the same ring would never be answered. Everything else passes: 503 says to come again.
//   - Only allowed senders are answered. Before a sender is known to be one, nothing of the body is read.
//   - An answer comes within Handler.Within. What the core has begun it still ends, and counts until then among what is
//     done at once.
//   - One sweep runs at a time, and no answer of a sweep is older than its ring: but what a sweep found that took
//     longer than its sender waited is the answer to the next ring. A cluster may need longer for it than any sender
//     waits, and would be swept without an end otherwise.
package receiver

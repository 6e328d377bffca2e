// SPDX-License-Identifier: Apache-2.0

// Package transport makes one attempt to send one CloudEvent to one sink, and reports its outcome. Each folder
// beneath it is one way to reach a sink: http, and kafka.
//
// Its invariants, for each of them:
//
//   - Acknowledged means that the sink itself, at the address that the source names, has accepted this event.
//   - Two sources never share a connection, a certificate authority or a client.
//   - No answer can fill the memory, or occupy a worker for longer than the policy's timeout.
//   - An attempt carries all credentials that its source asks for, or is not made.
//   - Every connection goes to a host and an address that Addresses permits.
//   - No error names more of a sink than its scheme and host, or contains a secret value.
//
// The package neither retries nor waits. The caller decides when to try again, with Policy.Backoff and
// Outcome.RetryAfter.
//
// The parts: Registry chooses the transport by the scheme of the sink's URI. Access is what all transports share:
// Addresses (where they may connect), Trust (whose certificates they accept), and Credentials, which package
// credentials reads. Pool holds the clients of each source. Package transports lists the transports.
package transport

// SPDX-License-Identifier: Apache-2.0

// Package rivals lets the other tools themselves decide where canary/rivals says how they would.
//
// Invariant: a tool is the program of its pinned release, with a real API server. What it sees is scripted, so that its
// rules here can decide on the same.
package rivals

// SPDX-License-Identifier: Apache-2.0

// Package protoactor makes the grains of a protoactor-go cluster follow the shard plan of a Knative Service, so that
// each Revision handles the percentage of the requests that the Route gives it.
//
// Its invariants:
//   - A member activates a grain only while it holds the shard of that grain's identity.
//   - A member gets a shard only from the member that holds it, or if every other member says that it does not hold it.
//     A member that left without a word is given the lease to stop.
//   - A member that hands a shard over first waits until all grains of the shard have stopped.
//   - The plan decides where shards belong, never whether two members may hold one: that is safe with any plan, or
//     none.
package protoactor

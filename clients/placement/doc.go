// SPDX-License-Identifier: Apache-2.0

// Package placement makes the members of a sharded application follow the shard plan of a Knative Service. It is what
// the clients for protoactor-go and the sidecar have in common: reading the plan, and the protocol by which members
// hand shards over.
//
// Its invariants:
//   - A member holds a shard only if every other member has agreed since it last let one have it.
//   - The member that holds a shard agrees only after all that is active there has stopped.
//   - A member that left without a word is given the lease to stop.
//   - The plan decides where shards belong, never whether two members may hold one: that is safe with any plan, or
//     none.
//
// They need that of any two members that may hold shards, the one that came later sees the other one, and that a member
// agrees only to claims of members that it sees.
package placement

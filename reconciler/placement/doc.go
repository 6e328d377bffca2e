// SPDX-License-Identifier: Apache-2.0

// Package placement keeps a plan for each stateful cluster that asks for one: which member must
// own each shard, so that every Revision handles the percentage that the Route gives it.
//
// Its invariants:
//   - Only the leader of a Service writes its plan. The resource version fences off a second leader.
//   - A plan changes only if its content does, and its version then increases.
//   - If the cluster, its members or the split are not known completely, the last plan stays.
package placement

// SPDX-License-Identifier: Apache-2.0

// Package cluster polls the clusters that the pods of stateful Knative Services form, across all Revisions of a
// Service, and stores a plan for each cluster that asks for one: which member must own each shard. What it decides,
// package canary/cluster decides; web serves the plans.
//
// Its invariants:
//   - It polls a pod only after it has verified that the pod belongs to a Revision of the Service that the pod's label
//     names.
//   - It only sends GET requests, to the pod's own address. It sends no credentials and follows no redirects.
//   - Only the leader of a Service polls, and writes its plan. The resource version fences off a second leader.
//   - A plan changes only if its content does, and its version then increases.
//   - If the cluster, its members or the split are not known completely, the last plan stays.
package cluster

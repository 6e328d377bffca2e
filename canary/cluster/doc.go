// SPDX-License-Identifier: Apache-2.0

// Package cluster evaluates what the pods of a stateful Knative Service report of the cluster that they form, and
// plans which member must own each shard.
//
// Answers of one poll become an Observation (observe.go, partitions.go). A Tracker compares observations and
// determines the state of the cluster: whether it has settled, and what is wrong with it (tracker.go). A Layout is
// where all shards are (layout.go). A plan names the owner of each shard, so that every Revision handles the
// percentage that the Route gives it (plan.go, which uses canary/placement). Progress is how far the cluster follows
// its plan (progress.go).
//
// Its invariants:
//   - It is pure: it does no I/O and has no clock.
//   - A value that could not be read is unknown. It is never zero.
package cluster

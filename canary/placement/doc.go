// SPDX-License-Identifier: Apache-2.0

// Package placement turns the traffic split of a Service into an owner for each shard of its
// cluster, so that a Revision that gets 5 % of the requests also handles 5 % of them.
//
// An assignment is made in four steps. The percentages become a number of shards for each Revision, by
// largest remainder (apportion.go). The shards of a Revision are divided evenly among its members
// (quota.go). The fewest shards that can change their owner do; if their load is known, those are
// chosen that bring each Revision's load closest to its percentage (assign.go). Moves are paced,
// and nothing moves while the cluster changes (assignment.go).
//
// The package is pure: an assignment depends on its input alone. Renaming members renames them in
// it, and changes nothing else, except between members that own nothing and could be exchanged.
//
// References: M. Balinski, H. P. Young, Fair Representation, 2nd ed., 2001 (apportionment);
// A. Adya et al., Slicer, OSDI 2016 (load to be moved for each shard that moves).
package placement

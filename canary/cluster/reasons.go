// SPDX-License-Identifier: Apache-2.0

package cluster

// Reasons of the incidents of a stateful cluster.
//
//reasons:table Incident/Cluster
const (
	// Split: pods form clusters that do not know each other. Find out why they cannot reach each other.
	Split = "Split"
	// SplitByRevision: each Revision forms a cluster of its own. Follow the message: both need the same cluster.
	SplitByRevision = "SplitByRevision"
	// ClusterNamesDiffer: the pods are members of clusters with different names. Use one name in all Revisions.
	ClusterNamesDiffer = "ClusterNamesDiffer"
	// MembersUnreachable: members cannot reach some of the others. Look at the pods that the message names.
	MembersUnreachable = "Unreachable"
	// Lagging: Ready pods are not members, or members do not come up or leave. Look at the pods that the message names.
	Lagging = "Lagging"
	// SidecarMissing: pods lack the sidecar that they declare. Label the namespace, and delete these pods.
	SidecarMissing = "SidecarMissing"
)

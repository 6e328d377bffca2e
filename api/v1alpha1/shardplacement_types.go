// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ShardPlacement says which member of a stateful cluster must own each shard, so that every
// Revision handles the percentage of the requests that the Route gives it.
//
// It is in the controller's namespace, and only the controller writes it. The members of the
// cluster read it over HTTP. It has no status subresource, because it is always written as a whole.
//
// +kubebuilder:object:root=true
type ShardPlacement struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec names the Service whose pods are the cluster. It never changes.
	Spec ShardPlacementSpec `json:"spec"`
	// status is the plan.
	Status ShardPlacementStatus `json:"status,omitempty"`
}

// ShardPlacementSpec names a Knative Service.
type ShardPlacementSpec struct {
	// namespace is the namespace of the Service.
	Namespace string `json:"namespace"`
	// service is the name of the Service.
	Service string `json:"service"`
	// uid is the UID of the Service. It distinguishes Services that had the same name one after the
	// other.
	UID types.UID `json:"uid"`
}

// PlacementMode says what members do with a plan.
type PlacementMode string

// The modes of placement.
const (
	// PlacementEnforce: members place shards as the plan says.
	PlacementEnforce PlacementMode = "enforce"
	// PlacementObserve: the plan is published, and the runtime places shards as it does without one.
	PlacementObserve PlacementMode = "observe"
)

// ShardPlacementStatus is a plan.
type ShardPlacementStatus struct {
	// version increases with each plan: the time of the plan in milliseconds since 1970, or one more
	// than the last version if that is greater. So it also increases after a backup was restored.
	Version int64 `json:"version,omitempty"`
	// issuedAt is when the plan was made.
	IssuedAt metav1.Time `json:"issuedAt,omitzero"`
	// mode says what the members do with the plan.
	Mode PlacementMode `json:"mode,omitempty"`
	// held is the reason why no shard moves by choice: MemberJoining, MemberUnreachable or NoMembers.
	// Without it, shards may move. Shards without an owner are placed by the plan in any case.
	Held string `json:"held,omitempty"`
	// atOnce is how many shards are handed over at a time.
	AtOnce int32 `json:"atOnce,omitempty"`
	// revisions are the Revisions that get traffic.
	// +listType=atomic
	Revisions []PlacementRevision `json:"revisions,omitempty"`
	// members are the members of the cluster.
	// +listType=atomic
	Members []PlacementMember `json:"members,omitempty"`
	// entityTypes are the plans of each sharded type.
	// +listType=atomic
	EntityTypes []PlacementEntityType `json:"entityTypes,omitempty"`
	// peers are the members that registered, as those of runtime sidecar do. Whoever registers later sees
	// all that did before.
	// +listType=atomic
	Peers []PlacementPeer `json:"peers,omitempty"`
}

// PlacementRevision is a Revision that gets traffic.
type PlacementRevision struct {
	// name is the name of the Revision.
	Name string `json:"name"`
	// percent is the percentage of the requests that it must handle.
	Percent int32 `json:"percent"`
}

// PlacementMember is a member of the cluster.
type PlacementMember struct {
	// address is the address of the member, as the runtime gives it.
	Address string `json:"address"`
	// pod is the name of its pod.
	Pod string `json:"pod"`
	// revision is the Revision of its pod.
	Revision string `json:"revision"`
}

// PlacementPeer is a process that registered as a member, with the token of its pod.
type PlacementPeer struct {
	// pod is the name of its pod.
	Pod string `json:"pod"`
	// uid is the UID of its pod.
	UID types.UID `json:"uid"`
	// revision is the Revision of its pod.
	Revision string `json:"revision"`
	// address is where it speaks TLS with other members: the address of its pod, and a port.
	Address string `json:"address"`
	// pin is the SHA-256 of its public key, in hexadecimal digits. It is another one after each restart.
	Pin string `json:"pin"`
	// restarts counts the processes of the same pod that registered before this one, since the last one that had left.
	Restarts int32 `json:"restarts,omitempty"`
	// leaving: the pod is being deleted.
	Leaving bool `json:"leaving,omitempty"`
	// left: its process said that it holds no shard, and takes none any more. Who comes later need not wait for it.
	Left bool `json:"left,omitempty"`
	// gone: the API server says that the pod is gone, or has ended. Its process need not know if its node is
	// cut off.
	Gone bool `json:"gone,omitempty"`
	// goneSince is when the controller learned that the pod is gone. Two minutes later, the peer is not
	// listed any more.
	GoneSince metav1.Time `json:"goneSince,omitzero"`
}

// PlacementEntityType is the plan of one sharded type.
type PlacementEntityType struct {
	// name is the name of the type.
	Name string `json:"name"`
	// shards is the number of its shards.
	Shards int32 `json:"shards"`
	// quotas are how many shards each member must own, in the order of members.
	// +listType=atomic
	Quotas []int32 `json:"quotas,omitempty"`
	// owners are the members that must own each shard, in the order of the shards' ids: an index
	// into members, or -1 for none. Without it, the ids are not the numbers from 0, and members keep
	// to the quotas.
	// +listType=atomic
	Owners []int32 `json:"owners,omitempty"`
}

// ShardPlacementList is a list of ShardPlacement.
//
// +kubebuilder:object:root=true
type ShardPlacementList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []ShardPlacement `json:"items"`
}

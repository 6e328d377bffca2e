// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Pod is a pod of the cluster. Its owner is verified and its declaration is valid.
type Pod struct {
	Name string
	UID  types.UID
	// IP is empty until the pod has one.
	IP string
	// Revision is the one that owns the pod, and Generation the generation of its Configuration.
	Revision   string
	Generation int64
	Ready      bool
	// Deleting means that the pod is being deleted, and Over that its processes have ended or never started.
	Deleting, Over bool
	// MemberID and ClusterName are labels that the Kubernetes provider of protoactor-go puts on the pods of members.
	MemberID, ClusterName string
	// Sidecar means that the pod has the sidecar, as a container or in queue-proxy.
	Sidecar  bool
	Declared v1alpha1.Stateful
}

// LacksSidecar reports whether the pod declares a sidecar and has none. All its requests are then handled where they
// enter, and no pod of the cluster knows of it.
func (p *Pod) LacksSidecar() bool { return p.Declared.Runtime == v1alpha1.RuntimeSidecar && !p.Sidecar }

// Live reports whether the pod can answer and should be a member.
func (p *Pod) Live() bool { return !p.Deleting && !p.Over && p.IP != "" }

// Answer is what a pod reports about its cluster.
type Answer struct {
	Members Members
	// Shards holds the pod's shards by entity type.
	Shards map[string][]string
	// Err is set if the answer is missing or incomplete.
	Err error
}

// ErrNoRoute means that a pod does not serve what was requested (404).
var ErrNoRoute = errors.New("the route does not exist (404)")

// Members is the answer of /cluster/members: the cluster as one node sees it.
type Members struct {
	// SelfNode is the address of the answering node, for example
	// "pekko://shop@10.0.0.7:25520".
	SelfNode    string        `json:"selfNode"`
	Members     []Member      `json:"members"`
	Unreachable []Unreachable `json:"unreachable"`
	// Leader and Oldest are empty until the cluster forms.
	Leader string `json:"leader"`
	Oldest string `json:"oldest"`
}

// Member is a member of the cluster.
type Member struct {
	Node string `json:"node"`
	// NodeUID is a 64-bit number. Most versions send it as a string.
	NodeUID json.Number `json:"nodeUid"`
	// Status is Joining, WeaklyUp, Up, Leaving, Exiting, Down or Removed.
	Status string   `json:"status"`
	Roles  []string `json:"roles"`
}

// Up reports whether the member is an active part of the cluster.
func (m Member) Up() bool { return m.Status == "Up" || m.Status == "WeaklyUp" }

// Unreachable is a member that other members cannot reach.
type Unreachable struct {
	Node       string   `json:"node"`
	ObservedBy []string `json:"observedBy"`
}

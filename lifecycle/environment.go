// SPDX-License-Identifier: Apache-2.0

package lifecycle

// The transitions of an environment: a cluster, or whatever else a team provisions to run services in.
const (
	// ClusterAPIClusterCreated: the API server has accepted a Cluster of Cluster API.
	ClusterAPIClusterCreated Type = "ClusterAPIClusterCreated"
	// CrossplaneClusterCreated: the API server has accepted a claim, a composite or a managed resource of
	// Crossplane.
	CrossplaneClusterCreated Type = "CrossplaneClusterCreated"
	// EnvironmentCreated: the environment, identified by its UID, is ready for the first time.
	EnvironmentCreated Type = "EnvironmentCreated"
	// EnvironmentModified: a declared change is in place, and the environment is ready.
	EnvironmentModified Type = "EnvironmentModified"
	// EnvironmentDeleted: the environment is gone, after it was ready or baselined.
	EnvironmentDeleted Type = "EnvironmentDeleted"
)

// OfEnvironment reports whether the transition is one that only an environment has.
func (t Type) OfEnvironment() bool {
	switch t {
	case ClusterAPIClusterCreated, CrossplaneClusterCreated, EnvironmentCreated, EnvironmentModified, EnvironmentDeleted:
		return true
	}
	return false
}

// The incidents of an environment. Each has its own limit.
const (
	// EnvironmentOutage: the environment was ready, and cannot be used: its control plane is not
	// available or not reached, or its provider says that it is not ready.
	EnvironmentOutage Incident = "environment-outage"
	// EnvironmentDegraded: parts of it are not available, or its provider cannot bring it to the
	// declared state. Scaling and upgrades look like this for a while.
	EnvironmentDegraded Incident = "environment-degraded"
	// EnvironmentNotCreated: it has not become ready since it was declared.
	EnvironmentNotCreated Incident = "environment-not-created"
)

// environmentIncidents lists the kinds in the order of evaluation.
var environmentIncidents = []Incident{EnvironmentNotCreated, EnvironmentOutage, EnvironmentDegraded}

// The providers of environments.
const (
	ProviderClusterAPI = "cluster-api"
	ProviderCrossplane = "crossplane"
)

// Environment is what events tell of an environment.
type Environment struct {
	// ID is the environment's id if a label gives one; empty for the default.
	ID string `json:"id,omitempty"`
	// Provider is one of the Provider constants; empty for other kinds.
	Provider string `json:"provider,omitempty"`
	// Version is what runs in it, for example the version of Kubernetes; empty if unknown.
	Version string `json:"version,omitempty"`
	// Region is where it runs; empty if unknown.
	Region string `json:"region,omitempty"`
	// URL is its endpoint, an absolute URI; empty if unknown.
	URL string `json:"url,omitempty"`
	// Class is the ClusterClass or Composition that it is made from; empty if there is none.
	Class string `json:"class,omitempty"`
	// Pools are the names of its pools of workers, sorted.
	Pools []string `json:"pools,omitempty"`
	// Note says what could not be read.
	Note string `json:"note,omitempty"`
}

// EnvironmentDetails describe the environment of a transition.
type EnvironmentDetails struct {
	Environment
	// Previous is the environment before a modification.
	Previous *Environment `json:"previous,omitempty"`
	// Changed names what a modification changed: version, region, url, class, pools or spec.
	Changed []string `json:"changed,omitempty"`
	// Beneath is BeneathUnknown if the resources of a deleted environment may still exist.
	Beneath string `json:"beneath,omitempty"`
	// BeneathReason says why.
	BeneathReason string `json:"beneathReason,omitempty"`
}

// BeneathUnknown says that it is not known whether the resources that an environment consisted of are gone.
const BeneathUnknown = "Unknown"

// Reasons of an environment's transitions.
const (
	// ReasonEnvironmentDeleted: an incident ended because its environment is gone.
	ReasonEnvironmentDeleted = "EnvironmentDeleted"
)

// SPDX-License-Identifier: Apache-2.0

package lifecycle

import "time"

// The objects that make up a snapshot, as keys of Versions.
const (
	ObjectService = "service"
	ObjectRoute   = "route"
	// ObjectCluster is not an object. Cluster views carry their own Base.
	ObjectCluster = "cluster"
	// ObjectVerdicts is not an object either. Verdicts carry ids.
	ObjectVerdicts = "verdicts"
	// ObjectDomains covers all DomainMappings together, as of one resource version.
	ObjectDomains = "domains"
)

// Snapshot is a Knative Service at one moment, assembled from the Service, its Route and its
// Revisions.
type Snapshot struct {
	// Versions holds the resourceVersions of the objects in this snapshot.
	Versions map[string]string
	// Stale says that the Service in the snapshot is older than the memory. The Route may still be
	// newer: informers have no common order, and no step of the Route may be skipped.
	Stale bool
	// URLsStale says that some URLs are or may be stale. Then nothing is published.
	URLsStale bool
	// Gone: the object with this UID no longer exists. All other fields are unset then.
	Gone bool
	// Unconfirmed says that the state may be over by now. Nothing is decided then by how long it has lasted.
	Unconfirmed bool

	Generation int64
	// Ready is the Service's Ready condition, for its current generation.
	Ready bool
	// EverReady says that the Service must have been Ready before. It is used for a Service that
	// predates our first observation.
	EverReady   bool
	Annotations map[string]string
	Labels      map[string]string

	// Trouble holds the problems that the Service reports; a healthy kind is nil.
	Trouble map[Incident]*Trouble

	// Route is nil while no Route belongs to this Service's UID.
	Route *Route
	// RouteStale says that it is nil because it is older than the memory.
	RouteStale bool
	// Away lists the URLs of DomainMappings that are not Ready at the moment.
	Away []string
	// Cluster is nil if there is none, or until it has been polled.
	Cluster *Cluster
	// Verdicts holds recent verdicts of gates, oldest first.
	Verdicts []Verdict
	// Revisions holds the known Revisions, by name. Caches share them: nothing in them may be changed.
	Revisions map[string]*Revision
	// NoWait names Revisions not to wait for, because the API server was asked for them directly.
	NoWait map[string]bool
}

// Route is the Route of a Service. It shows steps that the Service itself hides.
type Route struct {
	// Effective: the status is for the current generation, the traffic is assigned, and the ingress has
	// it, fully or while a gradual rollout proceeds (RolloutInProgress). Serving writes the split before
	// the ingress has it. Certificates are not part of this.
	Effective bool
	// Rollout: a gradual rollout is in progress.
	Rollout bool
	// Trouble holds what the Route's own conditions say: its ingress of Outage, the assignment of traffic of
	// FailedRollout. It is nil if it has no such conditions.
	Trouble map[Incident]*Trouble
	// Traffic is the split in the status.
	Traffic Split
	// URLs lists the URLs of the Route and its tags that are reachable from outside the cluster.
	// The Service's own comes first, the others are sorted.
	URLs []string
	// Uncertified are those that wait for a certificate.
	Uncertified []string
}

// Divided reports whether a split between several Revisions is in effect.
func (r *Route) Divided() bool { return r.Effective && len(r.Traffic) > 1 }

// Rules are the settings that a platform team controls.
type Rules struct {
	// RollbackTraffic: traffic that moves back to an older Revision is a rollback; otherwise it is
	// an upgrade.
	RollbackTraffic bool
	// RollbackTemplate: a new Revision that equals an earlier primary is a rollback.
	RollbackTemplate bool
	// RollbackWithdrawn: it is a rollback if a newer Revision loses all traffic to an older one
	// without becoming primary; otherwise the traffic merely shifted.
	RollbackWithdrawn bool
	// ShiftedMinInterval is the shortest time between two announced steps of one gradual rollout.
	// Steps that a user makes are never merged.
	ShiftedMinInterval time.Duration
	// Stabilization is how long a Service must stay Ready to be deployed, and an environment to be created.
	Stabilization time.Duration
	// OutageAfter and FailedRolloutAfter are how long an outage, or a new Revision that is not
	// Ready, must last to be an incident; 0 means never. After OutageAfter, the URL of a DomainMapping
	// that is not Ready counts as lost, too.
	OutageAfter, FailedRolloutAfter time.Duration
	// NotDeployedAfter is the same limit for a new Service that does not become Ready.
	NotDeployedAfter time.Duration
	// DegradedAfter is the same limit for a stateful cluster.
	DegradedAfter time.Duration
	// SettleWithin is how long Deployed, Upgraded and RolledBack wait for the cluster of a Service
	// to settle; 0 means not at all.
	SettleWithin time.Duration
	// EnvironmentOutageAfter, EnvironmentDegradedAfter and EnvironmentNotCreatedAfter are the limits of the
	// incidents of environments; 0 means never.
	EnvironmentOutageAfter, EnvironmentDegradedAfter, EnvironmentNotCreatedAfter time.Duration
	// EnvironmentDeletedWithin is how long the end of an environment waits for the resources that it
	// consisted of.
	EnvironmentDeletedWithin time.Duration
}

// DefaultRules apply where config-cdevents sets nothing else.
var DefaultRules = Rules{
	RollbackTraffic:    true,
	RollbackTemplate:   true,
	RollbackWithdrawn:  true,
	ShiftedMinInterval: 10 * time.Second,
	OutageAfter:        time.Minute,
	FailedRolloutAfter: 2 * time.Minute,
	NotDeployedAfter:   15 * time.Minute,
	DegradedAfter:      time.Minute,
	SettleWithin:       2 * time.Minute,

	EnvironmentOutageAfter:     2 * time.Minute,
	EnvironmentDegradedAfter:   15 * time.Minute,
	EnvironmentNotCreatedAfter: 45 * time.Minute,
	EnvironmentDeletedWithin:   30 * time.Minute,
}

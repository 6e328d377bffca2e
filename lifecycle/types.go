// SPDX-License-Identifier: Apache-2.0

// Package lifecycle decides which transitions a watched subject went through.
//
// It is pure: a decision depends only on the memory of the subject, one snapshot of it and the
// given time. It knows no Kubernetes objects, reads no clock and does no I/O, so every decision can
// be replayed from the ledger and tested as a table. Folding the same snapshots over the same
// memory always gives the same transitions, with the same sequence numbers.
package lifecycle

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Type names a transition. Its value is stable: the ledger stores it.
type Type string

// The transitions of a Knative Service. Package emitter/cdevents maps them to event types.
const (
	// Created: the API server has accepted the Service.
	Created Type = "ServiceCreated"
	// Deployed: the Service, identified by its UID, is Ready for the first time.
	Deployed Type = "ServiceDeployed"
	// Published: the Service became reachable from outside the cluster, or the set of its external
	// URLs changed.
	Published Type = "ServicePublished"
	// RevisionReady: a Revision became Ready for the first time.
	RevisionReady Type = "RevisionReady"
	// TrafficShifted: the effective split changed, but not the primary.
	TrafficShifted Type = "TrafficShifted"
	// Upgraded: the primary moved forward.
	Upgraded Type = "ServiceUpgraded"
	// RolledBack: the primary moved back, or a canary was withdrawn in favor of an older Revision.
	RolledBack Type = "ServiceRolledBack"
	// Removed: the Service is gone, after it was deployed or baselined.
	Removed Type = "ServiceRemoved"
	// IncidentDetected: trouble lasted longer than its limit.
	IncidentDetected Type = "IncidentDetected"
	// IncidentResolved: announced trouble ended.
	IncidentResolved Type = "IncidentResolved"
	// Judged: a gate reached a verdict on a canary.
	Judged Type = "CanaryJudged"
	// ClusterFormed: the first member of the Service's stateful cluster is up. Scaling to zero and
	// back does not form it again.
	ClusterFormed Type = "ClusterFormed"
	// ClusterSettled: shards stopped moving, after the cluster formed or a Revision joined or left
	// it.
	ClusterSettled Type = "ClusterSettled"
	// ClusterUnsettled: the cluster did not settle in time.
	ClusterUnsettled Type = "ClusterUnsettled"
	// ClusterRebalanced: every shard is where the plan for the traffic split wants it, for the first
	// time with this split.
	ClusterRebalanced Type = "ClusterRebalanced"
	// ClusterRemoved: the cluster ended with its Service, or is no longer declared.
	ClusterRemoved Type = "ClusterRemoved"
)

// OfCluster reports whether the transition is about the stateful cluster rather than its Service.
func (t Type) OfCluster() bool {
	switch t {
	case ClusterFormed, ClusterSettled, ClusterUnsettled, ClusterRebalanced, ClusterRemoved:
		return true
	}
	return false
}

// ShowsPresence reports whether the transition describes all of an object that exists now. A source
// that receives it needs no replay.
func (t Type) ShowsPresence() bool { return t == Deployed || t == EnvironmentCreated }

// Superseded reports whether the next transition of the same type makes this one obsolete. Such
// transitions are dropped first if not all can be kept.
func (t Type) Superseded() bool { return t == TrafficShifted }

// Reasons of a transition, as written to customData.reason.
const (
	// ReasonTraffic: the traffic moved to a Revision of another generation.
	ReasonTraffic = "TrafficMoved"
	// ReasonConfiguration: the primary moved forward with the same images.
	ReasonConfiguration = "ConfigurationChanged"
	// ReasonReapplied: a new Revision equals an earlier primary in template and images, as after
	// reverting a commit.
	ReasonReapplied = "TemplateReapplied"
	// ReasonReverted: a new Revision equals the primary that it replaces, and what was between them is
	// reverted: a Revision that did not become Ready, or never had all traffic.
	ReasonReverted = "ChangeReverted"
	// ReasonWithdrawn: a newer Revision lost all its traffic to an older one without ever becoming
	// primary.
	ReasonWithdrawn = "CanaryWithdrawn"
	// ReasonReplaced: a canary lost its traffic to a newer canary.
	ReasonReplaced = "CanaryReplaced"
	// ReasonReplay: nothing happened; a new source receives the current state.
	ReasonReplay = "Replay"
	// ReasonRemoved: an incident or a cluster ended because its Service is gone.
	ReasonRemoved = "ServiceRemoved"
	// ReasonUndeclared: a cluster ended because all traffic went to a Revision that declares none.
	ReasonUndeclared = "NotStatefulAnyMore"
)

// Image is one container's image, as specified and as resolved.
type Image struct {
	// Container is the container's name, empty if the Revision has only one.
	Container string `json:"container,omitempty"`
	// Image is the reference in the Revision's spec.
	Image string `json:"image,omitempty"`
	// Digest is the resolved reference, "registry/path@sha256:…"; empty if tag resolution is off.
	Digest string `json:"digest,omitempty"`
}

// Revision is the state kept of a Revision. The object vanishes with its Service, so everything
// that an event needs of it is kept here.
type Revision struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid,omitempty"`
	// Generation is the Configuration's generation that made it (label
	// serving.knative.dev/configurationGeneration). It alone orders Revisions: users may choose
	// names.
	Generation int64 `json:"generation,omitempty"`
	// Images holds the serving container first, then the sidecars.
	Images []Image `json:"images,omitempty"`
	// Digests is a hash over the digests of all images, if Images does not hold all of them.
	Digests string `json:"digests,omitempty"`
	// Template is a hash over the user's spec, without names and without annotations that tools
	// stamp at each apply.
	Template string `json:"template,omitempty"`
	// Ready latches: the Revision was Ready at least once.
	Ready bool `json:"ready,omitempty"`
	// Annotations holds only the annotations that events carry: provenance, chain and links.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Stateful is the runtime that the Revision declares for its cluster; empty if it declares
	// none.
	Stateful string `json:"stateful,omitempty"`
	// Misdeclared says what is wrong with its declaration. It then counts as declaring none.
	Misdeclared string `json:"misdeclared,omitempty"`
}

// Link points from a transition to an earlier one of the same subject.
type Link struct {
	// Kind is "PATH" (what this follows) or "UNDOES" (what this reverts).
	Kind string `json:"kind"`
	// Sequence and Time identify the earlier transition. Together with the subject and the source's
	// profile they determine the event's id.
	Sequence int64     `json:"sequence"`
	Time     time.Time `json:"time"`
	// Type is the earlier transition's type.
	Type Type `json:"type"`
}

// Kinds of Link.
const (
	LinkPath   = "PATH"
	LinkUndoes = "UNDOES"
)

// Transition is one change of a subject. It holds everything needed to render an event, so that the
// event can be sent again, byte for byte, long after the objects are gone.
type Transition struct {
	// Sequence counts the transitions of one subject from 1, without gaps.
	Sequence int64 `json:"sequence"`
	// Time is when the transition was observed. Condition times are not used: Serving rewrites
	// them, and a later change may carry an earlier time.
	Time time.Time `json:"time"`
	Type Type      `json:"type"`
	// Reason is one of the Reason constants, or empty.
	Reason string `json:"reason,omitempty"`
	// Generation is the Service's metadata.generation.
	Generation int64 `json:"generation,omitempty"`
	// Revision is what the transition is about: the primary after it, or the Revision that became
	// Ready; for TrafficShifted the newest with traffic; for Removed the last primary.
	Revision *Revision `json:"revision,omitempty"`
	// Previous is the primary before an upgrade, the Revision that a rollback undid or reverted, or for
	// TrafficShifted the unchanged primary.
	Previous *Revision `json:"previous,omitempty"`
	// Traffic is the effective split after the transition, largest first.
	Traffic Split `json:"traffic,omitempty"`
	// PreviousTraffic is the effective split before the transition.
	PreviousTraffic Split `json:"previousTraffic,omitempty"`
	// URLs lists the URLs reachable from outside the cluster; the first is the Service's own.
	URLs []string `json:"urls,omitempty"`
	// Annotations are the Service's own provenance annotations.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Merged counts the further steps of a gradual rollout that this transition stands for.
	Merged int64 `json:"merged,omitempty"`
	// Chain identifies the rollout: all transitions with the same Chain belong together. It is the
	// sequence number of the first one.
	Chain int64 `json:"chain,omitempty"`
	// Incident is set for IncidentDetected and IncidentResolved.
	Incident *IncidentDetails `json:"incident,omitempty"`
	// Cluster is set for transitions of a stateful cluster, and for those that waited for one.
	Cluster *ClusterDetails `json:"cluster,omitempty"`
	// Verdict is set for Judged.
	Verdict *Verdict `json:"verdict,omitempty"`
	// Environment is set for all transitions of an environment, and only for these.
	Environment *EnvironmentDetails `json:"environment,omitempty"`
	// Links point to earlier transitions of this subject.
	Links []Link `json:"links,omitempty"`
}

// Reapplies reports whether a new Revision rolls back, as after a revert in Git. It is a rollout of its own.
func (t Transition) Reapplies() bool {
	return t.Type == RolledBack && (t.Reason == ReasonReapplied || t.Reason == ReasonReverted)
}

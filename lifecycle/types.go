// Package lifecycle decides which transitions a watched subject went through.
//
// It is pure: a decision depends on nothing but the memory of the subject, one
// snapshot of it and the time that is handed in. It knows no Kubernetes type,
// reads no clock and does no I/O, so that every decision can be replayed from
// the ledger and tested as a table. Folding the same snapshots over the same
// memory always gives the same transitions, with the same sequence numbers.
package lifecycle

import (
	"time"
)

// Type names a transition. The value is stable: it is stored in the ledger.
type Type string

// The transitions of a Knative Service. What each one is announced as is the
// business of emitter/cdevents.
const (
	// Created is a Service that the API server has accepted.
	Created Type = "ServiceCreated"
	// Deployed is the first time that a Service, identified by its UID, is Ready.
	Deployed Type = "ServiceDeployed"
	// Published is a Service that became reachable from outside the cluster,
	// or whose set of such URLs changed.
	Published Type = "ServicePublished"
	// RevisionReady is a Revision that became Ready for the first time.
	RevisionReady Type = "RevisionReady"
	// TrafficShifted is a changed effective split that left the primary alone.
	TrafficShifted Type = "TrafficShifted"
	// Upgraded is a primary that moved forward.
	Upgraded Type = "ServiceUpgraded"
	// RolledBack is a primary that moved back, or a canary that was withdrawn in favour
	// of an older Revision.
	RolledBack Type = "ServiceRolledBack"
	// Removed is a Service that is gone, after it was deployed or baselined.
	Removed Type = "ServiceRemoved"
	// IncidentDetected is trouble that has lasted for longer than its limit.
	IncidentDetected Type = "IncidentDetected"
	// IncidentResolved is the end of trouble that was announced.
	IncidentResolved Type = "IncidentResolved"
	// Judged is a verdict that a gate has reached on a canary.
	Judged Type = "CanaryJudged"
	// ClusterFormed is the first member that is up in the stateful cluster of a
	// Service. Scaling to zero and back does not form it anew.
	ClusterFormed Type = "ClusterFormed"
	// ClusterSettled is the end of shards moving, after the cluster was formed, or
	// after a Revision joined or left it.
	ClusterSettled Type = "ClusterSettled"
	// ClusterUnsettled is that this end has not come in time.
	ClusterUnsettled Type = "ClusterUnsettled"
	// ClusterRemoved is the end of a cluster with its Service.
	ClusterRemoved Type = "ClusterRemoved"
)

// OfCluster says that a transition is one of the stateful cluster, and not of its
// Service.
func (t Type) OfCluster() bool {
	switch t {
	case ClusterFormed, ClusterSettled, ClusterUnsettled, ClusterRemoved:
		return true
	}
	return false
}

// ShowsPresence says that a transition tells all there is to know of an object that is
// there now. Whoever is told of it needs no replay.
func (t Type) ShowsPresence() bool { return t == Deployed }

// Superseded says that the next transition of the same type makes this one out of date.
// It is the first to give way where not all can be kept.
func (t Type) Superseded() bool { return t == TrafficShifted }

// Reasons of a transition. They are written to customData.reason.
const (
	// ReasonTraffic: the traffic was moved to a Revision of another generation.
	ReasonTraffic = "TrafficMoved"
	// ReasonConfiguration: forward, but the images are the same as before.
	ReasonConfiguration = "ConfigurationChanged"
	// ReasonReapplied: a new Revision equals an earlier primary in template
	// and images, as after reverting a commit.
	ReasonReapplied = "TemplateReapplied"
	// ReasonWithdrawn: a newer Revision lost all its traffic to an older one without
	// ever becoming primary.
	ReasonWithdrawn = "CanaryWithdrawn"
	// ReasonReplaced: it lost it to a still newer one, which is a canary too.
	ReasonReplaced = "CanaryReplaced"
	// ReasonReplay: nothing happened; a new source is told of the present state.
	ReasonReplay = "Replay"
	// ReasonRemoved: an incident or a cluster ended because its Service is gone.
	ReasonRemoved = "ServiceRemoved"
	// ReasonUndeclared: a cluster ended because all traffic went to a Revision that
	// declares none.
	ReasonUndeclared = "NotStatefulAnyMore"
)

// Image is one container's image, as asked for and as resolved.
type Image struct {
	// Container is the container's name, empty where the Revision has one only.
	Container string `json:"container,omitempty"`
	// Image is the reference in the Revision's spec.
	Image string `json:"image,omitempty"`
	// Digest is the resolved reference, "registry/path@sha256:…"; empty where
	// tag resolution is off.
	Digest string `json:"digest,omitempty"`
}

// Revision is what is remembered of a Revision. The object vanishes together
// with its Service, so that everything an event says of it is kept here.
type Revision struct {
	Name string `json:"name"`
	UID  string `json:"uid,omitempty"`
	// Generation is the Configuration's generation that made it
	// (label serving.knative.dev/configurationGeneration). It alone orders
	// Revisions: names may be chosen by users.
	Generation int64 `json:"generation,omitempty"`
	// Images holds the serving container first, then the sidecars.
	Images []Image `json:"images,omitempty"`
	// Template is a hash over what the user asked for, without names and
	// without annotations that tools stamp at each apply.
	Template string `json:"template,omitempty"`
	// Ready latches: it says that the Revision was Ready at least once.
	Ready bool `json:"ready,omitempty"`
	// Annotations holds the annotations that events carry: provenance, chain
	// and links. Never the whole set.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Stateful names the runtime that the Revision declares for its cluster; empty
	// where it declares none.
	Stateful string `json:"stateful,omitempty"`
	// Misdeclared says what is wrong with what it declares. It then counts as
	// declaring none.
	Misdeclared string `json:"misdeclared,omitempty"`
}

// Share is the part of the traffic that one Revision receives.
type Share struct {
	Revision string `json:"revision"`
	// Percent is 1 to 100, summed over all targets that name the Revision.
	Percent int64 `json:"percent"`
}

// Link points from a transition to an earlier one of the same subject.
type Link struct {
	// Kind is "PATH" (what this follows) or "UNDOES" (what this takes back).
	Kind string `json:"kind"`
	// Sequence and Time identify the earlier transition; together with the
	// subject and the source's profile they give the event's id.
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

// Transition is one thing that happened to a subject. It holds everything
// needed to render an event, so that the event can be sent again, byte by byte,
// when the objects are long gone.
type Transition struct {
	// Sequence counts the transitions of one subject from 1, without gaps.
	Sequence int64 `json:"sequence"`
	// Time is when the transition was observed. Condition times are not used:
	// Serving restamps them (a later change may carry an earlier time).
	Time time.Time `json:"time"`
	Type Type      `json:"type"`
	// Reason is one of the Reason constants, or empty.
	Reason string `json:"reason,omitempty"`
	// Generation is the Service's metadata.generation.
	Generation int64 `json:"generation,omitempty"`
	// Revision is the one the transition is about: the primary after it, the
	// Revision that became Ready; for TrafficShifted the newest that has
	// traffic; for Removed the last primary.
	Revision *Revision `json:"revision,omitempty"`
	// Previous is the primary before an upgrade, the Revision that a rollback
	// undid, or for TrafficShifted the primary, which stayed.
	Previous *Revision `json:"previous,omitempty"`
	// Traffic is the effective split after the transition, largest first.
	Traffic []Share `json:"traffic,omitempty"`
	// PreviousTraffic is the effective split before it.
	PreviousTraffic []Share `json:"previousTraffic,omitempty"`
	// URLs are those reachable from outside the cluster; the first is the
	// Service's own.
	URLs []string `json:"urls,omitempty"`
	// Annotations are the Service's own provenance annotations.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Merged counts the steps of a gradual rollout that this transition
	// stands for beside its own.
	Merged int64 `json:"merged,omitempty"`
	// Chain identifies the rollout: all transitions with the same Chain belong
	// together. It is the sequence number of the first of them.
	Chain int64 `json:"chain,omitempty"`
	// Incident is set for IncidentDetected and IncidentResolved.
	Incident *Told `json:"incident,omitempty"`
	// Cluster is set for what is told of a stateful cluster, and for what waited
	// for one.
	Cluster *ClusterTold `json:"cluster,omitempty"`
	// Verdict is set for Judged.
	Verdict *Verdict `json:"verdict,omitempty"`
	// Links point to earlier transitions of this subject.
	Links []Link `json:"links,omitempty"`
}

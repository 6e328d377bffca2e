// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"time"
)

// Incident is a kind of problem of a Service. Each kind has its own limit, and starts and ends
// independently.
type Incident string

// The kinds of incidents.
const (
	// Outage: the Service was deployed and is no longer routed to.
	Outage Incident = "outage"
	// NotDeployed: the Service has not become Ready since it was created, although its Revision has.
	NotDeployed Incident = "not-deployed"
	// FailedRollout: a new Revision does not become Ready. The one deployed before may still serve.
	FailedRollout Incident = "failed-rollout"
	// ClusterTrouble: members of the stateful cluster do not reach each other, or Ready pods are
	// not members.
	ClusterTrouble Incident = "cluster-degraded"
	// ClusterSplit: the pods form clusters that do not know of each other. The same entity may live
	// in each, and their data may diverge.
	ClusterSplit Incident = "cluster-split"
)

// splitAfter is how long a split must last. A cluster that has just started may look split for
// seconds.
const splitAfter = 10 * time.Second

// incidents lists the kinds in the order of evaluation.
var incidents = []Incident{Outage, FailedRollout, NotDeployed, ClusterSplit, ClusterTrouble}

// ofCluster reports whether the kind is about a stateful cluster.
func (i Incident) ofCluster() bool { return i == ClusterTrouble || i == ClusterSplit }

// aboutCluster reports whether a transition follows from the cluster's state alone.
func (t Transition) aboutCluster() bool {
	return t.Type.OfCluster() || t.Incident != nil && t.Incident.Kind.ofCluster()
}

// Trouble is the reason and message that the Service reports for an incident.
type Trouble struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Episode is an incident that was announced, or that predates our first observation. It lasts until
// a snapshot no longer shows it.
type Episode struct {
	Since time.Time `json:"since,omitzero"`
	// Detected is the transition that announced it. It is nil if the incident predates our first
	// observation: then its end is not announced either.
	Detected *TransitionRef `json:"detected,omitempty"`
	// Revision is the Revision in the announcement.
	Revision string `json:"revision,omitempty"`
	// Reason is that of the announcement. It is kept for incidents of a cluster.
	Reason string `json:"reason,omitempty"`
}

// IncidentDetails describes the incident of a transition.
type IncidentDetails struct {
	Kind Incident `json:"kind"`
	// Opened is the sequence number of the transition that announced it. It tells the incidents of
	// one Service apart.
	Opened int64 `json:"opened"`
	// Since is when it began.
	Since time.Time `json:"since"`
	Trouble
}

// limit is how long trouble must last to be an incident; 0 means never.
func (r Rules) limit(kind Incident) time.Duration {
	switch kind {
	case Outage:
		return r.OutageAfter
	case NotDeployed:
		return r.NotDeployedAfter
	case ClusterTrouble:
		return r.DegradedAfter
	case ClusterSplit:
		return splitAfter
	case EnvironmentOutage:
		return r.EnvironmentOutageAfter
	case EnvironmentDegraded:
		return r.EnvironmentDegradedAfter
	case EnvironmentNotCreated:
		return r.EnvironmentNotCreatedAfter
	}
	return r.FailedRolloutAfter
}

// troubleOf returns the trouble of one kind in the snapshot; known is false if the snapshot does not
// tell.
func (b *builder) troubleOf(kind Incident) (now *Trouble, known bool) {
	switch kind {
	case Outage:
		return b.outage()
	case FailedRollout:
		return b.failedRollout()
	case NotDeployed:
		return b.notDeployed()
	}
	if b.view == nil || kind == ClusterTrouble && b.view.Trouble[ClusterSplit] != nil {
		return nil, false // while split, no cluster is known to be whole
	}
	return b.view.Trouble[kind], true
}

// outage is what the Route says about the way to the Service: its ingress alone decides, neither a
// certificate nor a change of traffic that is not assigned. Without that, the Service says it.
func (b *builder) outage() (now *Trouble, known bool) {
	r := b.s.Route
	switch {
	case !b.m.Deployed:
		return nil, false // a Service that was never deployed has none
	case b.s.RouteStale:
		return nil, false
	case r == nil || r.Trouble == nil:
		return b.s.Trouble[Outage], true
	case r.Trouble[Outage] == nil && !b.served():
		return r.Trouble[FailedRollout], true
	}
	return r.Trouble[Outage], true
}

// served reports whether all Revisions with traffic exist. The ingress does not know when one is deleted.
func (b *builder) served() bool {
	return !slices.ContainsFunc(b.m.Traffic, func(s Share) bool {
		_, exists := b.s.Revisions[s.Revision]
		return !exists
	})
}

// failedRollout is what hinders the newest Revision, or the traffic that the Route was asked for.
func (b *builder) failedRollout() (now *Trouble, known bool) {
	switch t, r := b.s.Trouble[FailedRollout], b.s.Route; {
	case t != nil:
		return t, true
	case b.s.RouteStale:
		return nil, false
	case r != nil && b.m.Deployed && !b.served():
		return nil, false // traffic that is not assigned is an outage then, and is announced as one
	case r != nil:
		return r.Trouble[FailedRollout], true
	}
	return nil, true
}

// notDeployed is why a new Service is not Ready. A failed rollout that was announced says it already.
func (b *builder) notDeployed() (now *Trouble, known bool) {
	if b.m.Deployed || b.m.Episodes[NotDeployed] == nil && b.m.Episodes[FailedRollout] != nil {
		return nil, true
	}
	return b.s.Trouble[NotDeployed], true
}

// trouble announces incidents that have lasted for their limit, and their end.
func (b *builder) trouble() {
	if b.s.Stale {
		return
	}
	for _, kind := range incidents {
		now, known := b.troubleOf(kind)
		episode := b.m.Episodes[kind]
		switch {
		case !known:
		case now == nil:
			delete(b.m.Waits, incidentWait(kind))
			if kind == NotDeployed && (b.m.Deployed || b.s.Ready || b.m.Episodes[FailedRollout] != nil) {
				b.m.AwaitedSince = time.Time{}
			}
			if episode != nil {
				b.resolve(kind, episode, "")
			}
		case episode == nil:
			b.awaitIncident(kind, now)
		}
	}
}

// awaitIncident announces trouble once it has lasted for its limit.
func (b *builder) awaitIncident(kind Incident, now *Trouble) {
	limit := b.rules.limit(kind)
	if limit <= 0 {
		return
	}
	var since time.Time
	if kind == NotDeployed {
		since = b.awaited(incidentWait(kind), &b.m.AwaitedSince, limit)
	} else {
		since = b.since(incidentWait(kind), b.now, limit)
	}
	if !b.over(since, limit) {
		return
	}
	delete(b.m.Waits, incidentWait(kind))
	b.detect(kind, since, *now)
}

func (b *builder) detect(kind Incident, since time.Time, why Trouble) {
	since = since.UTC().Truncate(time.Microsecond) // as it is journaled
	e := &Episode{Since: since}
	t := Transition{
		Type: IncidentDetected, Revision: b.incidentRevision(kind), Links: b.m.Last.link(LinkPath),
		Incident: &IncidentDetails{Kind: kind, Opened: b.m.Sequence + 1, Since: since, Trouble: why},
	}
	if kind.ofCluster() {
		t.Cluster, e.Reason = b.clusterDetails(false), why.Reason
	}
	if t.Revision != nil {
		e.Revision = t.Revision.Name
		b.startChain(e.Revision) // part of its rollout, even if it never becomes Ready
	}
	ref := b.emit(t)
	e.Detected = &ref
	b.openEpisode(kind, e)
}

func (b *builder) openEpisode(kind Incident, e *Episode) {
	if b.m.Episodes == nil {
		b.m.Episodes = map[Incident]*Episode{}
	}
	b.m.Episodes[kind] = e
}

// resolve ends an episode. The end is announced only if the start was.
func (b *builder) resolve(kind Incident, e *Episode, reason string) {
	delete(b.m.Episodes, kind)
	if e.Detected == nil {
		return
	}
	t := Transition{
		Type: IncidentResolved, Reason: reason, Revision: b.m.revision(e.Revision), Links: e.Detected.link(LinkPath),
		Incident: &IncidentDetails{Kind: kind, Opened: e.Detected.Sequence, Since: e.Since},
	}
	if b.chain(e.Revision) == 0 {
		t.Chain = e.Detected.Sequence // it names no Revision, and is a chain of its own
	}
	b.emit(t)
}

// incidentRevision returns the Revision that an incident is about: the one that does not become Ready, or
// the one that is not reachable.
func (b *builder) incidentRevision(kind Incident) *Revision {
	if kind == Outage {
		return b.m.revision(b.m.Primary)
	}
	if kind.ofCluster() && b.view != nil {
		return b.newestMember(b.view)
	}
	newest := b.m.newest()
	if kind == NotDeployed && newest.Name != "" {
		return &newest.Revision
	}
	if newest.Name == "" || newest.Ready {
		return nil // there is none yet, or it was Ready before
	}
	return &newest.Revision
}

package lifecycle

import (
	"slices"
	"time"
)

// The objects that a snapshot is made from, as keys of Seen.
const (
	SeenService = "service"
	SeenRoute   = "route"
	// SeenCluster is no object. What is seen of a cluster carries its own Base.
	SeenCluster = "cluster"
	// SeenVerdicts neither: they carry ids.
	SeenVerdicts = "verdicts"
	// SeenDomains are all DomainMappings together: which there are as of a version.
	SeenDomains = "domains"
)

// Snapshot is a Knative Service at one moment, put together from the Service,
// its Route and its Revisions.
type Snapshot struct {
	// Seen holds the resourceVersions that this snapshot was made from.
	Seen map[string]string
	// Past says that what the snapshot shows of the Service itself is older than
	// the memory. The Route may be newer all the same: informers have no common
	// order, and none of its steps may be passed over.
	Past bool
	// URLsPast says that some of the URLs are of the past, or may be: nothing is
	// published by them.
	URLsPast bool
	// Gone: no object with this UID exists any more. Nothing else is set then.
	Gone bool

	Generation int64
	// Ready is the Service's Ready condition, for its current generation.
	Ready bool
	// EverReady says that the Service must have been Ready before. It is used
	// for a Service that was there before us.
	EverReady   bool
	Annotations map[string]string
	Labels      map[string]string

	// Trouble is what the Service says is wrong with it, nil for what is well.
	Trouble map[Incident]*Trouble

	// Route is nil while there is none that belongs to this Service's UID.
	Route *Route
	// Cluster is nil while nobody has looked at it, or where there is none.
	Cluster *Cluster
	// Verdicts that gates have reached lately, oldest first.
	Verdicts []Verdict
	// Revisions holds those that are known, by name.
	Revisions map[string]Revision
	// Unheld names Revisions that must not be waited for: the API server itself
	// was asked for them.
	Unheld map[string]bool
}

// Route is the Route of a Service. The Service itself hides steps that the
// Route shows.
type Route struct {
	// Effective: status is about the current generation, and it is in force,
	// wholly (Ready) or as a gradual rollout proceeds (RolloutInProgress).
	// Serving writes the split before the ingress has it.
	Effective bool
	// Rollout: a gradual rollout is on its way.
	Rollout bool
	// Ready is the Route's own Ready condition, for its current generation.
	Ready bool
	// Traffic is the split of the status, as Split returns it.
	Traffic []Share
	// URLs are those of the Route and its tags that are reachable from outside
	// the cluster. The Service's own comes first, the others are sorted.
	URLs []string
}

// Split sums traffic targets by Revision, largest share first, then by name.
// Targets without a share (tags only) and without a Revision are left out.
func Split(targets []Share) []Share {
	var out []Share
	for _, t := range targets {
		if t.Percent <= 0 || t.Revision == "" {
			continue
		}
		if i := slices.IndexFunc(out, func(s Share) bool { return s.Revision == t.Revision }); i >= 0 {
			out[i].Percent += t.Percent
			continue
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b Share) int {
		switch {
		case a.Percent != b.Percent:
			return int(b.Percent - a.Percent)
		case a.Revision < b.Revision:
			return -1
		case a.Revision > b.Revision:
			return 1
		}
		return 0
	})
	return out
}

// Rules are the choices that a platform team has.
type Rules struct {
	// RollbackTraffic: traffic that moves back to an older Revision is a
	// rollback; otherwise it is an upgrade like any other.
	RollbackTraffic bool
	// RollbackTemplate: so is a new Revision that equals an earlier primary.
	RollbackTemplate bool
	// RollbackWithdrawn: so is a newer Revision that lost all its traffic to an
	// older one without becoming primary; otherwise the traffic merely shifted.
	RollbackWithdrawn bool
	// ShiftedMinInterval is the shortest time between two announced steps of
	// one gradual rollout. Steps that a user makes are never merged.
	ShiftedMinInterval time.Duration
	// Stabilization is how long a Service must stay Ready to be deployed.
	Stabilization time.Duration
	// OutageAfter and FailedRolloutAfter are how long a Service must not be
	// routed to, and a new Revision must not become Ready, to be an incident;
	// 0 for never.
	OutageAfter, FailedRolloutAfter time.Duration
	// DegradedAfter is the same for a stateful cluster.
	DegradedAfter time.Duration
	// SettleWithin is how long Deployed, Upgraded and RolledBack wait for the
	// cluster of a Service to settle; 0 for not at all.
	SettleWithin time.Duration
}

// DefaultRules are in force where config-cdevents says nothing else.
var DefaultRules = Rules{
	RollbackTraffic:    true,
	RollbackTemplate:   true,
	RollbackWithdrawn:  true,
	ShiftedMinInterval: 10 * time.Second,
	OutageAfter:        time.Minute,
	FailedRolloutAfter: 2 * time.Minute,
	DegradedAfter:      time.Minute,
	SettleWithin:       2 * time.Minute,
}

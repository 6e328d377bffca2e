// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"time"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Fate is what became of a canary.
type Fate string

// The fates. It is Unknown as long as the traffic is split, or if the ledger has not kept what happened.
const (
	Unknown    Fate = "unknown"
	Kept       Fate = "kept"
	RolledBack Fate = "rolled back"
	Incident   Fate = "incident"
)

// incidentWithin is for how long after a canary's end as a canary an incident of its Service is laid to it.
const incidentWithin = 24 * time.Hour

// Fate returns what became of a canary that was judged between two times, and when that was known.
func (t Timeline) Fate(canary string, from, to time.Time) (is Fate, at time.Time) {
	is = Unknown
	for _, e := range t.Events {
		mine := e.revision == canary
		switch {
		case e.Time.Before(from):
		case e.kind == lifecycle.RolledBack && e.previous == canary:
			return RolledBack, e.Time
		case e.kind == lifecycle.Upgraded && mine:
			is, at = Kept, e.Time
		case e.kind == lifecycle.IncidentDetected && e.Time.Before(to.Add(incidentWithin)):
			return Incident, e.Time
		case e.kind == lifecycle.Upgraded || e.kind == lifecycle.RolledBack:
			return is, at // another Revision has the traffic
		}
	}
	return is, at
}

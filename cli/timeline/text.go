// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Text says what a transition of the object with that name is.
func Text(name string, t lifecycle.Transition) string {
	switch t.Type {
	case lifecycle.TrafficShifted:
		text := "traffic is now " + t.Traffic.String()
		if t.Merged > 0 {
			text += fmt.Sprintf(", after %d more steps of one rollout", t.Merged)
		}
		return text
	case lifecycle.Upgraded:
		return fmt.Sprintf("all traffic moved from %s to the newer %s", nameOf(t.Previous), nameOf(t.Revision))
	case lifecycle.RolledBack:
		return fmt.Sprintf("traffic moved back from %s to %s%s", nameOf(t.Previous), nameOf(t.Revision), because(t.Reason))
	case lifecycle.Published:
		if len(t.URLs) > 0 {
			return name + " is reachable at " + strings.Join(t.URLs, ", ")
		}
	case lifecycle.IncidentDetected, lifecycle.IncidentResolved:
		return incident(t)
	case lifecycle.Judged:
		return judged(t.Verdict)
	case lifecycle.EnvironmentModified:
		if t.Environment != nil && len(t.Environment.Changed) > 0 {
			return "a change is in place: " + strings.Join(t.Environment.Changed, ", ")
		}
	}
	if t.Revision == nil {
		return brief(t.Type, "")
	}
	return brief(t.Type, t.Revision.Name)
}

func nameOf(r *lifecycle.Revision) string {
	if r == nil || r.Name == "" {
		return "an unknown Revision"
	}
	return r.Name
}

func because(reason string) string {
	switch reason {
	case lifecycle.ReasonWithdrawn:
		return ": the canary was withdrawn"
	case lifecycle.ReasonReapplied:
		return ": an earlier template was applied again"
	case lifecycle.ReasonReverted:
		return ": the change before it was reverted, and nothing changed for users"
	}
	return ""
}

func incident(t lifecycle.Transition) string {
	if t.Incident == nil {
		return brief(t.Type, "")
	}
	text := "incident " + string(t.Incident.Kind)
	if t.Type == lifecycle.IncidentResolved {
		return text + " is over"
	}
	if t.Incident.Reason != "" {
		text += ": " + t.Incident.Reason
	}
	return text
}

func judged(v *lifecycle.Verdict) string {
	if v == nil {
		return brief(lifecycle.Judged, "")
	}
	text := "a gate"
	if v.Gate != "" {
		text = "gate " + v.Gate
	}
	text += fmt.Sprintf(" judged %s: %s", v.Canary, v.Verdict)
	if len(v.Reasons) > 0 {
		text += " (" + strings.Join(v.Reasons, ", ") + ")"
	}
	return text
}

// brief says what happened if hardly more than the type is known. The Revision may be empty.
func brief(kind lifecycle.Type, revision string) string {
	with := func(text, join string) string {
		if revision == "" {
			return text
		}
		return text + join + revision
	}
	switch kind {
	case lifecycle.Created:
		return "created, not ready yet"
	case lifecycle.Deployed:
		return with("ready for the first time", ", with ")
	case lifecycle.Published:
		return "reachable from outside, or at other URLs"
	case lifecycle.RevisionReady:
		if revision == "" {
			return "a Revision is ready, before it has traffic"
		}
		return "Revision " + revision + " is ready, before it has traffic"
	case lifecycle.TrafficShifted:
		if revision == "" {
			return "the traffic split changed"
		}
		return revision + " got a share of the traffic"
	case lifecycle.Upgraded:
		return with("all traffic moved to a newer Revision", ", ")
	case lifecycle.RolledBack:
		return with("traffic moved back to an earlier Revision", ", ")
	case lifecycle.Removed:
		return "deleted"
	case lifecycle.IncidentDetected:
		return "an incident began"
	case lifecycle.IncidentResolved:
		return "an incident is over"
	case lifecycle.Judged:
		return "a gate reached a verdict"
	}
	return other(kind, with)
}

// other does the same for clusters and environments.
func other(kind lifecycle.Type, with func(text, join string) string) string {
	switch kind {
	case lifecycle.ClusterFormed:
		return "the pods have formed a cluster"
	case lifecycle.ClusterSettled:
		return with("the shards have settled", ", with ")
	case lifecycle.ClusterUnsettled:
		return "the shards did not settle in time"
	case lifecycle.ClusterRebalanced:
		return "the shards are divided as the traffic is"
	case lifecycle.ClusterRemoved:
		return "the cluster is gone"
	case lifecycle.ClusterAPIClusterCreated:
		return "asked of Cluster API, not ready yet"
	case lifecycle.CrossplaneClusterCreated:
		return "asked of Crossplane, not ready yet"
	case lifecycle.EnvironmentCreated:
		return "the environment is ready for the first time"
	case lifecycle.EnvironmentModified:
		return "a change is in place"
	case lifecycle.EnvironmentDeleted:
		return "the environment is gone"
	}
	return string(kind)
}

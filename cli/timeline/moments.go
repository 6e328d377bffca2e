// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"slices"
	"time"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Moment is a point of a Service's time line, and the time from there to the next one.
type Moment struct {
	Time time.Time `json:"time"`
	// Sequence is the number of the transition; 0 for what is not in the ledger.
	Sequence int64 `json:"sequence,omitempty"`
	// Name is what people call the event, or what else happened.
	Name string `json:"name"`
	Text string `json:"text"`
	// Outcome is how it has turned out.
	Outcome Outcome `json:"outcome"`
	// Split is how the traffic is split from here on, largest share first. It is empty if that is not known.
	Split lifecycle.Split `json:"split,omitempty"`
	// Missing is how many events after this one the ledger has not kept: the split may have changed with them.
	Missing int64 `json:"missing,omitempty"`
}

// still lists the events that do not change the split.
var still = []lifecycle.Type{
	lifecycle.Created,
	lifecycle.RevisionReady,
	lifecycle.Published,
	lifecycle.Judged,
	lifecycle.IncidentDetected,
	lifecycle.IncidentResolved,
	lifecycle.ClusterFormed,
	lifecycle.ClusterSettled,
	lifecycle.ClusterUnsettled,
	lifecycle.ClusterRebalanced,
	lifecycle.ClusterRemoved,
}

// Moment returns the event as a point of a time line.
func (e Event) Moment() Moment {
	return Moment{Time: e.Time, Sequence: e.Sequence, Name: e.Short(), Text: e.Text, Split: e.Split, Outcome: e.Outcome}
}

// MovesTraffic reports whether the event is about a new split.
func (e Event) MovesTraffic() bool {
	return slices.Contains([]lifecycle.Type{lifecycle.TrafficShifted, lifecycle.Upgraded, lifecycle.RolledBack}, e.kind)
}

// after is the split after a transition, if that is known: without its traffic, only if all of it moved.
func after(t lifecycle.Transition) lifecycle.Split {
	all := t.Type == lifecycle.Upgraded || t.Type == lifecycle.RolledBack && withdrawn(t) == ""
	if len(t.Traffic) == 0 && all && t.Revision != nil {
		return lifecycle.Split{{Revision: t.Revision.Name, Percent: 100}}
	}
	return t.Traffic
}

func withdrawn(t lifecycle.Transition) string {
	if t.Type == lifecycle.RolledBack && t.Reason == lifecycle.ReasonWithdrawn && t.Previous != nil {
		return t.Previous.Name
	}
	return ""
}

// without is what is left of a split of two without one of them.
func without(gone string, of lifecycle.Split) lifecycle.Split {
	left := slices.DeleteFunc(slices.Clone(of), func(s lifecycle.Share) bool { return s.Revision == gone })
	if gone == "" || len(of) != 2 || len(left) != 1 {
		return nil
	}
	return lifecycle.Split{{Revision: left[0].Revision, Percent: 100}}
}

// Moments puts the events of a Service, oldest first, and what else is known to have happened into one line, with the
// split from each point on. A split that is not known is the one before, unless the event changes the split or is the
// first one after events that the ledger has not kept. The last point has the split of now.
func Moments(t Timeline, others []Moment, now lifecycle.Split) []Moment {
	var out []Moment
	unsure, gone := map[int64]bool{}, map[int64]string{}
	for i, e := range t.Events {
		m := e.Moment()
		next := t.Sequence + 1
		if i+1 < len(t.Events) {
			next = t.Events[i+1].Sequence
		}
		if m.Missing = next - e.Sequence - 1; m.Missing > 0 && next <= t.Sequence {
			unsure[next] = true
		}
		if !slices.Contains(still, e.kind) {
			unsure[e.Sequence] = true
		}
		gone[e.Sequence] = e.withdrawn
		out = append(out, m)
	}
	out = append(out, others...)
	slices.SortStableFunc(out, func(a, b Moment) int { return a.Time.Compare(b.Time) })
	var last lifecycle.Split
	for i := range out {
		m := &out[i]
		switch {
		case len(m.Split) > 0:
			last = m.Split
		case unsure[m.Sequence] && m.Sequence > 0:
			last = without(gone[m.Sequence], last)
			m.Split = last
		default:
			m.Split = last
		}
	}
	if n := len(out); n > 0 && len(now) > 0 {
		out[n-1].Split = now
	}
	return out
}

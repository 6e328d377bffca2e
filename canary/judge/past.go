// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"time"
)

// PodPast is what one pod did before the split.
type PodPast struct {
	// Watched is how long it was watched.
	Watched time.Duration
	// Errors, EntryErrors, ClientErrors, and requests above each histogram bound in seconds.
	Errors, EntryErrors, ClientErrors Expected
	Above                             map[float64]Expected
}

// Expected compares one pod's bad requests with the number it would have had at the rate of all pods at
// each moment.
type Expected struct{ Bad, Expected float64 }

// past is how much more pods differed before the split than chance explains.
type past struct {
	// Pods counts those that were watched for long enough, and Watched is for how long as many as
	// needed were watched.
	Pods    int           `json:"pods,omitempty"`
	Watched time.Duration `json:"watched,omitempty"`

	Errors float64 `json:"errors,omitempty"`
	Entry  float64 `json:"entry,omitempty"`
	// Client is of all 4xx codes, also of those that a metric ignores.
	Client float64 `json:"client,omitempty"`
	// WorstErrors and WorstEntry are how many times worse than its like the worst pod was.
	WorstErrors float64 `json:"worstErrors,omitempty"`
	WorstEntry  float64 `json:"worstEntry,omitempty"`
	WorstClient float64 `json:"worstClient,omitempty"`
	// Above by bound, as a list because JSON keys cannot be numbers.
	Above []bounded `json:"above,omitempty"`
}

type bounded struct {
	Bound  float64 `json:"bound"`
	Spread float64 `json:"spread"`
	Worst  float64 `json:"worst,omitempty"`
}

// Remember takes the history of the pods that served before the split. With too few pods or too short a
// history, the run compares minutes instead of requests.
func (r *Run) Remember(pods []PodPast) {
	p := &r.Evidence.Past
	*p = past{}
	above := map[float64][]seen{}
	var errors, entry, client []seen
	var watched []time.Duration
	for _, pod := range pods {
		watched = append(watched, pod.Watched)
		if pod.Watched >= leastHistory {
			p.Pods++
		}
		errors, entry = append(errors, pod.Errors.seen()), append(entry, pod.EntryErrors.seen())
		client = append(client, pod.ClientErrors.seen())
		for bound, e := range pod.Above {
			above[bound] = append(above[bound], e.seen())
		}
	}
	if slices.Sort(watched); p.enough() {
		p.Watched = watched[len(watched)-leastPods]
	}
	p.Errors, p.Entry, p.Client = spread(errors), spread(entry), spread(client)
	p.WorstErrors, p.WorstEntry, p.WorstClient = worstPod(errors), worstPod(entry), worstPod(client)
	for _, bound := range sortedKeys(above) {
		p.Above = append(p.Above, bounded{bound, spread(above[bound]), worstPod(above[bound])})
	}
}

func (e Expected) seen() seen { return seen{e.Bad, e.Expected} }

// enough reports whether the history shows how pods differ.
func (p past) enough() bool { return p.Pods >= leastPods }

// spread of what a metric calls bad, at least 1. Ten quiet minutes say less than a quiet hour.
func (p past) spread(m Metric, bound float64) float64 {
	least := 1.0
	if p.enough() {
		least += max(0, float64(wholeHistory-p.Watched)/float64(2*wholeHistory))
	}
	return max(least, m.Kind.kind().differed(p, bound).Spread)
}

// difference is how pods differed: Spread says how much more than chance explains, Worst how much worse than its like
// the worst pod was.
type difference struct{ Spread, Worst float64 }

// above returns how pods differed in what is slower than a bound.
func (p past) above(bound float64) difference {
	for _, b := range p.Above {
		if b.Bound == bound {
			return difference{b.Spread, b.Worst}
		}
	}
	return difference{1, 1}
}

// worst returns how much worse than its like the worst pod was, at least 1.
func (p past) worst(m Metric, bound float64) float64 {
	return max(1, m.Kind.kind().differed(p, bound).Worst)
}

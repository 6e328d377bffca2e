// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// The limits of a history.
const (
	// MaxHistory is how many transitions a history has.
	MaxHistory = 20
	// maxHistorySize is the size in bytes of JSON above which the oldest transitions are left out. A usual
	// history has 3 KiB.
	maxHistorySize = 8 << 10
	// maxPastShares, maxPastNames and maxPastText limit what users write into one transition.
	maxPastShares = 8
	maxPastNames  = 4
	maxPastText   = 256
)

// history is a history as it is stored: a PastTransition in JSON for each transition, the oldest first. To decode them takes ten times as
// long as to decompress them, and to add one needs only the number of the last.
type history [][]byte

// historyOf encodes a history.
func historyOf(all []v1alpha1.PastTransition) (history, error) {
	out := make(history, 0, len(all))
	for _, p := range all {
		line, err := json.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("encoding transition %d of the history: %w", p.Sequence, err)
		}
		out = append(out, line)
	}
	return out, nil
}

// decode returns the transitions.
func (h history) decode() ([]v1alpha1.PastTransition, error) {
	var out []v1alpha1.PastTransition
	for _, line := range h {
		var p v1alpha1.PastTransition
		if err := json.Unmarshal(line, &p); err != nil {
			return nil, fmt.Errorf("reading the history in status.compressed: %w", err)
		}
		out = append(out, p)
	}
	return out, nil
}

// with adds a transition. Numbers that the history has already are those of a future that a restored backup does not know.
func (h history) with(t lifecycle.Transition) (history, error) {
	for len(h) > 0 {
		var last struct {
			Sequence int64 `json:"sequence"`
		}
		if err := json.Unmarshal(h[len(h)-1], &last); err != nil {
			return nil, fmt.Errorf("reading the history in status.compressed: %w", err)
		}
		if last.Sequence < t.Sequence {
			break
		}
		h = h[:len(h)-1]
	}
	line, err := json.Marshal(past(t))
	if err != nil {
		return nil, fmt.Errorf("encoding transition %d of the history: %w", t.Sequence, err)
	}
	h = append(slices.Clone(h), line)
	size, from := 0, len(h)
	for from > 0 && len(h)-from < MaxHistory {
		if size += len(h[from-1]) + 1; size > maxHistorySize {
			break
		}
		from--
	}
	return h[min(from, len(h)-1):], nil
}

// past is what a history has of a transition.
func past(t lifecycle.Transition) v1alpha1.PastTransition {
	p := v1alpha1.PastTransition{
		Sequence: t.Sequence, Time: metav1.NewMicroTime(t.Time), Type: string(t.Type), Chain: t.Chain, Reason: short(t.Reason), Merged: t.Merged,
	}
	if t.Revision != nil {
		p.Revision = short(t.Revision.Name)
	}
	if t.Previous != nil {
		p.Previous = short(t.Previous.Name)
	}
	switch {
	case slices.Contains([]lifecycle.Type{lifecycle.TrafficShifted, lifecycle.Deployed, lifecycle.RolledBack}, t.Type):
		// An upgrade leaves all traffic to one Revision.
		for _, s := range t.Traffic[:min(len(t.Traffic), maxPastShares)] {
			p.Traffic = append(p.Traffic, v1alpha1.PastShare{Revision: short(s.Revision), Percent: s.Percent})
		}
	case t.Type == lifecycle.Published:
		p.Names = names(t.URLs)
	case t.Incident != nil:
		p.Incident = short(string(t.Incident.Kind))
		if p.Reason == "" {
			p.Reason = short(t.Incident.Reason)
		}
	case t.Verdict != nil:
		p.Gate, p.Verdict = short(t.Verdict.Gate), short(string(t.Verdict.Verdict))
		p.Reason = short(strings.Join(t.Verdict.Reasons, ", "))
	case t.Environment != nil:
		p.Names = names(t.Environment.Changed)
	}
	return p
}

// names leaves out what is too long: a part of a URL would be another one.
func names(all []string) []string {
	all = slices.DeleteFunc(slices.Clone(all), func(s string) bool { return len(s) > maxPastText })
	return all[:min(len(all), maxPastNames)]
}

func short(s string) string {
	if len(s) <= maxPastText {
		return s
	}
	return strings.ToValidUTF8(s[:maxPastText-len("…")], "") + "…"
}

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

// appendHistory adds a transition to a history. Numbers that the history has already are those of a future that a
// restored backup does not know.
func appendHistory(history string, t lifecycle.Transition) (string, error) {
	var lines []string
	for line := range strings.Lines(history) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	for len(lines) > 0 {
		var last struct {
			Sequence int64 `json:"sequence"`
		}
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
			return "", fmt.Errorf("reading status.history: %w; %s", err, untilRepaired)
		}
		if last.Sequence < t.Sequence {
			break
		}
		lines = lines[:len(lines)-1]
	}
	line, err := json.Marshal(past(t))
	if err != nil {
		return "", fmt.Errorf("encoding transition %d of the history: %w", t.Sequence, err)
	}
	lines = append(lines, string(line))
	size, from := 0, len(lines)
	for from > 0 && len(lines)-from < MaxHistory {
		if size += len(lines[from-1]) + len("\n"); size > maxHistorySize {
			break
		}
		from--
	}
	return strings.Join(lines[min(from, len(lines)-1):], "\n") + "\n", nil
}

// past is what a history has of a transition.
func past(t lifecycle.Transition) v1alpha1.PastTransition {
	p := v1alpha1.PastTransition{
		Sequence: t.Sequence, Time: metav1.NewMicroTime(t.Time), Type: string(t.Type), Chain: t.Chain,
		Reason: short(t.Reason), Merged: t.Merged,
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

// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PastTransition is a transition as people look back at it. No event is rendered from it.
type PastTransition struct {
	// sequence is the number of the transition.
	Sequence int64 `json:"sequence"`
	// time is the time of the transition.
	Time metav1.MicroTime `json:"time"`
	// type is the type of the transition.
	Type string `json:"type"`
	// chain is the number of the first transition of the same rollout.
	Chain int64 `json:"chain,omitempty"`
	// reason is the reason of the transition, of the incident, or of the verdict.
	Reason string `json:"reason,omitempty"`
	// revision is the name of the Revision that the transition is about.
	Revision string `json:"revision,omitempty"`
	// previous is the name of the Revision that had the traffic before.
	Previous string `json:"previous,omitempty"`
	// traffic lists the largest shares of the traffic after a deployment, a shift or a rollback.
	Traffic []PastShare `json:"traffic,omitempty"`
	// merged is the number of further steps of a gradual rollout that the transition stands for.
	Merged int64 `json:"merged,omitempty"`
	// names lists the first URLs of a Service that was published, or the first changes of an environment.
	Names []string `json:"names,omitempty"`
	// incident is the kind of the incident.
	Incident string `json:"incident,omitempty"`
	// gate is the name of the CanaryGate that reached a verdict.
	Gate string `json:"gate,omitempty"`
	// verdict is the verdict of a gate.
	Verdict string `json:"verdict,omitempty"`
}

// PastTransitions decodes the history.
func (s *CDEventSubjectStatus) PastTransitions() ([]PastTransition, error) {
	var out []PastTransition
	for line := range strings.Lines(s.History) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		var p PastTransition
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			return nil, fmt.Errorf("reading status.history: %w", err)
		}
		out = append(out, p)
	}
	return out, nil
}

// PastShare is the traffic share of one Revision.
type PastShare struct {
	// revision is the name of the Revision.
	Revision string `json:"revision"`
	// percent is its share of the traffic.
	Percent int64 `json:"percent"`
}

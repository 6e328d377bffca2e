// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// transition is what a history has of a transition, enough for Text.
func transition(p v1alpha1.PastTransition) lifecycle.Transition {
	t := lifecycle.Transition{
		Sequence: p.Sequence, Time: p.Time.UTC(), Type: lifecycle.Type(p.Type), Reason: p.Reason, Merged: p.Merged,
		Revision: named(p.Revision), Previous: named(p.Previous),
	}
	for _, s := range p.Traffic {
		t.Traffic = append(t.Traffic, lifecycle.Share(s))
	}
	switch {
	case t.Type == lifecycle.Published:
		t.URLs = p.Names
	case p.Incident != "":
		t.Incident = &lifecycle.IncidentDetails{
			Kind:    lifecycle.Incident(p.Incident),
			Trouble: lifecycle.Trouble{Reason: p.Reason},
		}
	case p.Verdict != "":
		t.Verdict = &lifecycle.Verdict{Gate: p.Gate, Canary: p.Revision, Verdict: verdict.Verdict(p.Verdict)}
		if p.Reason != "" {
			t.Verdict.Reasons = []string{p.Reason}
		}
	case len(p.Names) > 0:
		t.Environment = &lifecycle.EnvironmentDetails{Changed: p.Names}
	}
	return t
}

func named(revision string) *lifecycle.Revision {
	if revision == "" {
		return nil
	}
	return &lifecycle.Revision{Name: revision}
}

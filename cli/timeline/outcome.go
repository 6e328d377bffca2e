// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Outcome is how something has turned out. That a gate judged is neither good nor bad; its verdict is.
type Outcome string

// The outcomes.
const (
	Good   Outcome = "good"
	Bad    Outcome = "bad"
	Unsure Outcome = "unsure"
	Plain  Outcome = "plain"
)

func outcome(t lifecycle.Transition) Outcome {
	if t.Verdict == nil {
		return OutcomeOf(t.Type, "")
	}
	return OutcomeOf(t.Type, t.Verdict.Verdict)
}

// OutcomeOf returns the outcome of an event; v is the verdict, if it is about one and it is known.
func OutcomeOf(kind lifecycle.Type, v verdict.Verdict) Outcome {
	switch kind {
	case lifecycle.Judged:
		return ofVerdict(v)
	case lifecycle.IncidentDetected, lifecycle.ClusterUnsettled:
		return Bad
	case lifecycle.RolledBack, lifecycle.Removed, lifecycle.ClusterRemoved, lifecycle.EnvironmentDeleted:
		return Unsure
	case lifecycle.Created, lifecycle.ClusterAPIClusterCreated, lifecycle.CrossplaneClusterCreated:
		return Plain
	}
	return Good
}

func ofVerdict(v verdict.Verdict) Outcome {
	switch v {
	case verdict.Pass:
		return Good
	case verdict.Fail, verdict.Error:
		return Bad
	case verdict.Warn, verdict.Inconclusive:
		return Unsure
	case verdict.Running, verdict.Superseded:
	}
	return Plain
}

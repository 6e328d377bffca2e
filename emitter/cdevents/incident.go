// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"time"

	"github.com/cdevents/sdk-go/pkg/api"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Incident holds the details of an incident beyond the vocabulary.
type Incident struct {
	// Kind is "outage", "failed-rollout", "not-deployed", "cluster-degraded" or "cluster-split"; for an environment
	// "environment-outage", "environment-degraded" or "environment-not-created".
	Kind string `json:"kind"`
	// Since is when it began, in UTC.
	Since string `json:"since"`
	// Reason and Message come from a condition of the Service or environment, or describe the problem
	// of a stateful cluster.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

func incident(t lifecycle.Transition) *Incident {
	if t.Incident == nil {
		return nil
	}
	i := *t.Incident
	return &Incident{
		Kind: string(i.Kind), Since: eventTime(i.Since).Format(time.RFC3339Nano), Reason: i.Reason,
		Message: i.Message,
	}
}

// about fills in the fields that only a cluster, an environment, a verdict or an incident has.
func (f *facts) about(subject v1alpha1.CDEventSubjectSpec, t lifecycle.Transition) {
	if t.Type.OfCluster() {
		f.subject = ClusterID(subject)
	}
	if t.Environment != nil {
		f.subject = EnvironmentID(subject, t.Environment.ID)
	}
	if t.Verdict != nil {
		f.judged(subject, *t.Verdict)
	}
	if t.Incident == nil {
		return
	}
	f.subject = IncidentID(subject, *t.Incident)
	if t.Environment != nil {
		f.description = describeEnvironment(subject, t)
		return
	}
	f.service = &api.Reference{Id: SubjectID(subject)}
	f.description = describe(subject, t)
}

func describe(s v1alpha1.CDEventSubjectSpec, t lifecycle.Transition) string {
	name := "Knative Service " + s.Namespace + "/" + s.Name
	since := eventTime(t.Incident.Since).Format(time.RFC3339)
	resolved := t.Type == lifecycle.IncidentResolved
	switch {
	case t.Reason == lifecycle.ReasonRemoved:
		return name + " is gone, and with it what was wrong with it since " + since
	case t.Reason == lifecycle.ReasonUndeclared:
		return name + " declares no stateful cluster any more; what was wrong with that since " + since + " is over"
	case t.Incident.Kind == lifecycle.ClusterSplit && resolved:
		return "The stateful cluster of " + name + ", which was split since " + since + ", is one again"
	case t.Incident.Kind == lifecycle.ClusterSplit:
		return "The stateful cluster of " + name + " has been split since " + since + because(t.Incident.Trouble)
	case t.Incident.Kind == lifecycle.ClusterTrouble && resolved:
		return "The stateful cluster of " + name + ", which was degraded since " + since + ", is whole again"
	case t.Incident.Kind == lifecycle.ClusterTrouble:
		return "The stateful cluster of " + name + " has been degraded since " + since + because(t.Incident.Trouble)
	case resolved && t.Incident.Kind == lifecycle.NotDeployed:
		return name + ", which did not become Ready since " + since + ", is deployed"
	case t.Incident.Kind == lifecycle.NotDeployed:
		return name + " has not become Ready since " + since + because(t.Incident.Trouble)
	case resolved && t.Incident.Kind == lifecycle.Outage:
		return name + ", which was not routed to since " + since + ", is routed to again"
	case resolved:
		return "The newest Revision of " + name + " is Ready; none was since " + since
	case t.Incident.Kind == lifecycle.Outage:
		return name + " has not been routed to since " + since + because(t.Incident.Trouble)
	}
	return "The newest Revision of " + name + " has not become Ready since " + since + because(t.Incident.Trouble)
}

// describeEnvironment names the object by its kind, because an environment may be provisioned by any.
func describeEnvironment(s v1alpha1.CDEventSubjectSpec, t lifecycle.Transition) string {
	name := s.Kind + " " + s.Name
	if s.Namespace != "" {
		name = s.Kind + " " + s.Namespace + "/" + s.Name
	}
	since := eventTime(t.Incident.Since).Format(time.RFC3339)
	if t.Type == lifecycle.IncidentDetected {
		is := " has not become ready since "
		switch t.Incident.Kind {
		case lifecycle.EnvironmentOutage:
			is = " has not been available since "
		case lifecycle.EnvironmentDegraded:
			is = " has been degraded since "
		}
		return name + is + since + because(t.Incident.Trouble)
	}
	switch {
	case t.Reason == lifecycle.ReasonEnvironmentDeleted:
		return name + " is gone, and with it what was wrong with it since " + since
	case t.Incident.Kind == lifecycle.EnvironmentOutage:
		return name + ", which was not available since " + since + ", is available again"
	case t.Incident.Kind == lifecycle.EnvironmentDegraded:
		return name + ", which was degraded since " + since + ", has recovered"
	}
	return name + ", which did not become ready since " + since + ", is ready"
}

func because(t lifecycle.Trouble) string {
	out := ""
	for _, s := range []string{t.Reason, t.Message} {
		if s != "" {
			out += ": " + s
		}
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"github.com/cdevents/sdk-go/pkg/api"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// unknownEnvironment is used if no environment is configured. The schema of three events requires
// an id, and the prose requires it of all (CDEvents continuous-deployment.md, Events, column
// "Required").
const unknownEnvironment = "unknown"

// environmentOf refers to the environment of a subject. One that is an environment refers to itself, by
// the id and source that events from within it name.
func environmentOf(
	profile v1alpha1.Profile,
	subject v1alpha1.CDEventSubjectSpec,
	t lifecycle.Transition,
	n *notes,
) *api.Reference {
	if t.Environment != nil {
		return &api.Reference{Id: EnvironmentID(subject, t.Environment.ID), Source: profile.Source}
	}
	return environment(profile.Environment, n)
}

// environment refers to the environment. An id is unique only within its source (CDEvents spec.md,
// id (subject)), so the source is included if it is a URI.
func environment(e v1alpha1.Environment, n *notes) *api.Reference {
	ref := &api.Reference{Id: e.ID}
	if ref.Id == "" {
		ref.Id = unknownEnvironment
		n.add("environment.id", "no environment is configured for this subject")
	}
	if e.Source == "" {
		return ref
	}
	if _, ok := parseURI(e.Source); !ok {
		n.add("environment.source", "left out: %q is not a URI reference", clip(e.Source))
		return ref
	}
	ref.Source = e.Source
	return ref
}

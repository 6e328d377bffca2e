package cdevents

import (
	"fmt"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Rendering is the version of what a transition is made into. It is journaled with
// each transition, in the profile, so that a later release sends what this one
// journaled as this one would have: the same id has the same bytes.
// DEVELOPMENT.md says what to do before they change.
const Rendering = 1

// first is the rendering of journals that name none.
const first = 1

// renderings are those that journals may name, by version.
var renderings = map[int]func(v1alpha1.Profile, v1alpha1.CDEventSubjectSpec, lifecycle.Transition) (event.Event, error){
	first: render1,
}

// Render turns a journaled transition into the event that a source with this
// profile is owed.
func Render(profile v1alpha1.Profile, subject v1alpha1.CDEventSubjectSpec, t lifecycle.Transition) (event.Event, error) {
	version := profile.Rendering
	if version == 0 {
		version = first
	}
	render, ok := renderings[version]
	if !ok {
		return event.Event{}, fmt.Errorf("rendering transition %d of %s: it was journaled for version %d of the rendering, and this release supports versions up to %d",
			t.Sequence, SubjectID(subject), version, Rendering)
	}
	return render(profile, subject, t)
}

// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"fmt"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Rendering is the current version of the rendering. The journal records it in the profile of each
// transition, so that a later release sends the same bytes under the same id. DEVELOPMENT.md says
// what to do before the bytes change.
const Rendering = 2

// first is the version of journals that name none.
const first = 1

// rendering is one version. Its fields are where versions differ; the rest is common to all.
type rendering struct {
	// input prepares what others wrote.
	input func(v1alpha1.Profile, lifecycle.Transition) (v1alpha1.Profile, lifecycle.Transition)
	// image reads a reference to an image.
	image func(string) (reference, bool)
	// link reads an entry of the annotation with links.
	link func(string) (kind, id string, ok bool)
}

// renderings maps each version that journals may name. None of them ever changes.
var renderings = map[int]rendering{
	first: {input: asJournaled, image: parseReference, link: splitLink},
	2:     {input: withoutCredentials, image: canonicalReference, link: splitTypedLink},
}

func asJournaled(p v1alpha1.Profile, t lifecycle.Transition) (v1alpha1.Profile, lifecycle.Transition) {
	return p, t
}

// Rendered is a rendered event.
type Rendered struct {
	event.Event
	// Incomplete says that the event has notes about what it lacks.
	Incomplete bool
}

// Render turns a journaled transition into the event for a source with this profile.
func Render(profile v1alpha1.Profile, subject v1alpha1.CDEventSubjectSpec, t lifecycle.Transition) (Rendered, error) {
	version := profile.Rendering
	if version == 0 {
		version = first
	}
	v, ok := renderings[version]
	if !ok {
		return Rendered{}, fmt.Errorf("rendering transition %d of %s: it was journaled for version %d of the rendering, and this release supports versions up to %d",
			t.Sequence, SubjectID(subject), version, Rendering)
	}
	return v.render(profile, subject, t)
}

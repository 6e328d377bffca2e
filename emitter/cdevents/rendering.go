// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"fmt"
	"runtime/debug"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Rendering is the version of the rendering. The journal records it in the profile of each transition, so that
// a later release sends the same bytes under the same id. DEVELOPMENT.md says what to do before the bytes change.
const Rendering = 1

// Rendered is a rendered event.
type Rendered struct {
	event.Event
	// Incomplete says that the event has notes about what it lacks.
	Incomplete bool
}

// Renderer is the type of Render.
type Renderer func(v1alpha1.Profile, v1alpha1.CDEventSubjectSpec, lifecycle.Transition) (Rendered, error)

// PanicError says that rendering a transition panicked, which is a bug.
type PanicError struct {
	Sequence int64
	Value    any
	Stack    string
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("rendering transition %d panicked: %v", e.Sequence, e.Value)
}

// Recovering renders, and turns a panic into a *PanicError. One event must not end the process, nor keep what happens
// to its object from being journaled and sent.
func (render Renderer) Recovering(
	profile v1alpha1.Profile, subject v1alpha1.CDEventSubjectSpec, t lifecycle.Transition,
) (r Rendered, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Sequence: t.Sequence, Value: value, Stack: string(debug.Stack())}
		}
	}()
	return render(profile, subject, t)
}

// Render turns a journaled transition into the event for a source with this profile.
func Render(profile v1alpha1.Profile, subject v1alpha1.CDEventSubjectSpec, t lifecycle.Transition) (Rendered, error) {
	if profile.Rendering > Rendering {
		return Rendered{}, fmt.Errorf("rendering transition %d of %s: it was journaled for version %d of the rendering, "+
			"and this release supports versions up to %d",
			t.Sequence, SubjectID(subject), profile.Rendering, Rendering)
	}
	return renderV1(profile, subject, t)
}

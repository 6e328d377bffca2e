// SPDX-License-Identifier: Apache-2.0

package route

import (
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Rendering one event panics, so no filter can be applied to it. It is journaled all the same, and delivery gives it up:
// otherwise, nothing about the object would be journaled any more.
func TestEventWhoseRenderingPanicsIsJournaled(t *testing.T) {
	s := sourceNamed("filtered")
	filter(v1alpha1.Filter{CESQL: "TRUE"})(s)
	r := router(s)
	r.Render = func(v1alpha1.Profile, v1alpha1.CDEventSubjectSpec, lifecycle.Transition) (cdevents.Rendered, error) {
		panic("a bug")
	}
	got := r.Recipients(subject, ledger.Labels{}, lifecycle.Transition{Sequence: 1, Type: lifecycle.Deployed, Time: noon})
	if len(got) != 1 || !got[0].Undecided {
		t.Errorf("got %+v, want one recipient that is undecided", got)
	}
}

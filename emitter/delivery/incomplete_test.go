// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"testing"

	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// A source with an override that is not allowed receives its events without the override. Each
// event notes that, and is counted.
func TestIncompleteEventsAreSentAndCounted(t *testing.T) {
	wrong := sourceTo("wrong", "wrong")
	wrong.Spec.CloudEventOverrides = &duckv1.CloudEventOverrides{Extensions: map[string]string{"id": "mine"}}
	s := newStage(t, wrong, sourceTo("right", "right"))
	s.happens(t, "cart", lifecycle.Created, lifecycle.Deployed, lifecycle.Removed)
	s.eventually(t, "all events are delivered", func() bool { return s.pending("uid-wrong")+s.pending("uid-right") == 0 })
	if n := s.incomplete.Load(); n != 3 || len(s.received()) != 6 {
		t.Errorf("%d of %q are incomplete, want the three of one source", n, s.received())
	}
}

// SPDX-License-Identifier: Apache-2.0

package source

import (
	"encoding/json"
	"testing"

	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
)

// Eventing reads every source as duckv1.Source. If the sink is a reference, it makes an
// EventType of each attribute (knative.dev/eventing, pkg/reconciler/source/duck).
func TestCloudEventAttributes(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"": "dev.cdevents.service.deployed.0.3.0", "0.4": "dev.cdevents.service.deployed.0.2.0"} {
		h := newFixture(t, brokerAt("http://b.example"))
		s := h.settle(newSource(to(broker), func(s *v1alpha1.CDEventSource) { s.Spec.CDEvents = &v1alpha1.CDEventsSpec{Version: version} }))
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var asOthers duckv1.Source
		if err := json.Unmarshal(raw, &asOthers); err != nil {
			t.Fatal(err)
		}
		found := false
		for _, a := range asOthers.Status.CloudEventAttributes {
			found = found || a.Type == want
			if a.Source != "https://cluster.example" {
				t.Errorf("%+v", a)
			}
		}
		if n := len(asOthers.Status.CloudEventAttributes); !found || n != len(cdevents.Types(version)) || n != 21 {
			t.Errorf("%q: %d attributes, %s among them: %v", version, n, want, found)
		}
	}
	h := newFixture(t)
	s := h.settle(newSource(func(s *v1alpha1.CDEventSource) { s.Spec.CDEvents = &v1alpha1.CDEventsSpec{Version: "9"} }))
	if len(s.Status.CloudEventAttributes) > 0 {
		t.Errorf("%+v", s.Status.CloudEventAttributes)
	}
}

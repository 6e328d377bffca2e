package main

import (
	"maps"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/reconciler/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// A split that Serving has written and the ingress does not have yet is none.
func TestSplitThatIsInForce(t *testing.T) {
	t.Parallel()
	traffic := []lifecycle.Share{{Revision: "cart-1", Percent: 90}, {Revision: "cart-2", Percent: 10}}
	for name, c := range map[string]struct {
		route *lifecycle.Route
		want  map[string]int64
	}{
		"no Route":      {nil, nil},
		"being changed": {&lifecycle.Route{Traffic: traffic}, nil},
		"in force":      {&lifecycle.Route{Effective: true, Traffic: traffic}, map[string]int64{"cart-1": 90, "cart-2": 10}},
		"nowhere":       {&lifecycle.Route{Effective: true}, map[string]int64{}},
	} {
		s, _ := sceneOf(&fakePods{}, lifecycle.Snapshot{Route: c.route})
		if got, known := s.split(cartKey); !maps.Equal(got, c.want) || known != (c.want != nil) {
			t.Errorf("%s: %v, %v", name, got, known)
		}
	}
	early := newScene(&fakePods{}, func() *observer.Observer { return nil }, nil)
	if _, known := early.split(cartKey); known {
		t.Error("it is known before anything is watched")
	}
}

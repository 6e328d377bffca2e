package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/web"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// A split that Serving has written and the ingress does not have yet is none.
func TestSplitThatIsInForce(t *testing.T) {
	t.Parallel()
	traffic := []lifecycle.Share{{Revision: "cart-1", Percent: 90}, {Revision: "cart-2", Percent: 10}}
	revisions := map[string]types.UID{"cart-1": "r1"}
	for name, c := range map[string]struct {
		route *lifecycle.Route
		want  *web.Traffic
	}{
		"no Route":      {nil, nil},
		"being changed": {&lifecycle.Route{Traffic: traffic}, nil},
		"in force": {
			&lifecycle.Route{Effective: true, Traffic: traffic},
			&web.Traffic{Shares: map[string]int64{"cart-1": 90, "cart-2": 10}, Revisions: revisions},
		},
		"by itself": {&lifecycle.Route{Effective: true, Rollout: true}, &web.Traffic{Shares: map[string]int64{}, Revisions: revisions, Rollout: true}},
	} {
		s, _ := sceneOf(&fakePods{}, lifecycle.Snapshot{Route: c.route, Revisions: map[string]lifecycle.Revision{"cart-1": {UID: "r1"}}})
		if diff := cmp.Diff(c.want, s.split(cartKey)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	early := newScene(&fakePods{}, func() *observer.Observer { return nil }, nil)
	if early.split(cartKey) != nil {
		t.Error("it is known before anything is watched")
	}
}

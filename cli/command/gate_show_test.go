// SPDX-License-Identifier: Apache-2.0

package command

import (
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

func TestShareBesideWhatItShouldBe(t *testing.T) {
	t.Parallel()
	share := func(f float64) *float64 { return &f }
	bounds := &v1alpha1.GateExposure{MinRatio: share(0.5), MaxRatio: share(2)}
	for name, c := range map[string]struct {
		judgement verdict.Judgement
		bounds    *v1alpha1.GateExposure
		want      string
	}{
		"within its bounds": {verdict.Judgement{HandledShare: share(.11), ExpectedShare: share(.1)}, bounds, ""},
		"too much": {
			verdict.Judgement{HandledShare: share(.36), ExpectedShare: share(.1)},
			bounds,
			", 3.6 times its share; at most 2 is accepted",
		},
		"too little": {
			verdict.Judgement{HandledShare: share(.02), ExpectedShare: share(.1), RequiredShare: share(.02)},
			bounds,
			", 0.20 times its share; at least 0.5 is expected",
		},
		"no placement plan": {
			verdict.Judgement{HandledShare: share(.353), RequiredShare: share(.05)},
			bounds,
			", 7.1 times its share in the Route, which the gate does not compare",
		},
		"no split":  {verdict.Judgement{HandledShare: share(.353), RequiredShare: share(0)}, bounds, ""},
		"no bounds": {verdict.Judgement{HandledShare: share(.36), ExpectedShare: share(.1)}, nil, ""},
	} {
		if got := beside(&c.judgement, c.bounds); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

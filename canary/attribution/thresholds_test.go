// SPDX-License-Identifier: Apache-2.0

package attribution_test

import (
	"slices"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
)

// Otherwise a gate could ask for a threshold that no histogram bucket has.
func TestThresholdsOfGatesAreTheBounds(t *testing.T) {
	t.Parallel()
	seconds := func(d time.Duration, bound float64) bool { return d.Seconds() == bound }
	if !slices.EqualFunc(v1alpha1.GateThresholds(), attribution.Bounds(), seconds) {
		t.Errorf("%v and %v", v1alpha1.GateThresholds(), attribution.Bounds())
	}
}

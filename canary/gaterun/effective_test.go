// SPDX-License-Identifier: Apache-2.0

package gaterun_test

import (
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// What depends on the time that a run has, or on its Service, is shown to users: also after it was stored.
func TestEffectiveValues(t *testing.T) {
	t.Parallel()
	for stateful, metrics := range map[bool][]string{
		false: {"ErrorRate", "ClientErrors", "SlowRequests"}, true: {"ErrorRate", "EntryErrors", "ClientErrors", "SlowRequests"},
	} {
		p := begin(t, stateful, v1alpha1.CanaryGateSpec{}, 11*time.Minute)
		if e := p.run.Effective; e.Schedule.Timeout.Duration != 10*time.Minute+30*time.Second || e.Schedule.Warmup.Duration != 63*time.Second ||
			len(e.Metrics) != 4 || *e.Minimum.CanaryRequests != 300 || len(e.FailOn) != 3 {
			t.Errorf("at the start: %+v", e)
		}
		p.Read()
		for range 20 {
			p.now = p.now.Add(2 * time.Second)
			p.Read()
			p.step()
		}
		e := p.run.Public().Effective
		var got []string
		for _, m := range e.Metrics {
			got = append(got, m.Name)
			if (m.Type == v1alpha1.MetricSlowRequests) != (m.Threshold != nil) || m.MaxOddsRatio == nil {
				t.Errorf("%+v", m)
			}
		}
		if len(got) != len(metrics) {
			t.Errorf("stateful: %v, judged by %q, want %q; %s", stateful, got, metrics, p.run.Message)
		}
	}
}

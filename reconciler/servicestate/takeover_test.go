// SPDX-License-Identifier: Apache-2.0

package servicestate

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/pods"
)

// A new leader finds pods whose counters have run for a week. This test makes the calls in
// the order of scrape.Runner.
func TestTakeover(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]bool{"the API server answers": false, "the API server does not answer at first": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			there := &fakePods{down: down, pods: []*pods.Pod{running("p1", "10.0.0.1", nil)}}
			v, _ := viewOf(there, lifecycle.Snapshot{
				Route:     &lifecycle.Route{Effective: true, Traffic: lifecycle.Split{{Revision: "cart-1", Percent: 100}}},
				Revisions: map[string]*lifecycle.Revision{"cart-1": {Name: "cart-1", UID: "r1"}},
			})
			now := time.Unix(1e6, 0)
			counts := attribution.NewCounts(v.Facts, func() time.Time { return now })
			v.Targets(t.Context(), cartKey)
			counts.Begin(cartKey, false)
			read := func(errors map[types.UID]float64) {
				var out []scrape.Reading
				for _, target := range v.Targets(t.Context(), cartKey) {
					out = append(out, scrape.Reading{Target: target, At: now, Exposition: scrape.Exposition{Sources: []scrape.Source{{
						Name: "s", Values: map[mapping.Key]float64{{Figure: mapping.EntryHTTP, Outcome: "500"}: errors[target.Pod]},
					}}}})
				}
				counts.Read(cartKey, out)
				now = now.Add(15 * time.Second)
			}
			if down {
				read(nil)
				there.down = false
			}
			read(map[types.UID]float64{"p1": 1e6})
			there.pods = append(there.pods, running("p2", "10.0.0.2", nil)) // a new pod
			read(map[types.UID]float64{"p1": 1e6 + 10, "p2": 5})
			s, _ := counts.Snapshot(cartKey)
			r := s.Revisions()["r1"]
			if got := r.Entered["500"]; got != 15 {
				t.Errorf("%v requests since the takeover, want 15", got)
			}
			// The new pod was killed twice before the first scrape. Earlier restarts of the old pod
			// do not count.
			if got := r.Restarts[attribution.RestartedOOM]; got != 2 {
				t.Errorf("%v restarts, want 2", got)
			}
		})
	}
}

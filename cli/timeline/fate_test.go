// SPDX-License-Identifier: Apache-2.0

package timeline_test

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/timeline"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/fleet"
)

// The canary is cart-2, and was judged from minute 10 to 20.
func TestFate(t *testing.T) {
	t.Parallel()
	start := time.Unix(1.8e9, 0)
	minute := func(n int) time.Time { return start.Add(time.Duration(n) * time.Minute) }
	type past struct {
		at                 int
		kind               lifecycle.Type
		revision, previous string
	}
	const up, back, shift, incident = lifecycle.Upgraded, lifecycle.RolledBack, lifecycle.TrafficShifted, lifecycle.IncidentDetected
	for name, c := range map[string]struct {
		events []past
		want   timeline.Fate
		at     int
	}{
		"nothing":                     {nil, timeline.Unknown, -1},
		"still split":                 {[]past{{9, shift, "cart-2", "cart-1"}, {30, shift, "cart-2", "cart-1"}}, timeline.Unknown, -1},
		"kept":                        {[]past{{21, up, "cart-2", "cart-1"}, {60, up, "cart-3", "cart-2"}, {70, incident, "cart-3", ""}}, timeline.Kept, 21},
		"withdrawn":                   {[]past{{15, back, "cart-1", "cart-2"}}, timeline.RolledBack, 15},
		"kept, and rolled back later": {[]past{{21, up, "cart-2", "cart-1"}, {90, back, "cart-1", "cart-2"}}, timeline.RolledBack, 90},
		"kept, and an incident":       {[]past{{21, up, "cart-2", "cart-1"}, {90, incident, "cart-2", ""}, {95, back, "cart-1", "cart-2"}}, timeline.Incident, 90},
		"an incident much later":      {[]past{{21, up, "cart-2", "cart-1"}, {20 + 24*60, incident, "cart-2", ""}}, timeline.Kept, 21},
		"an incident before":          {[]past{{5, incident, "cart-1", ""}}, timeline.Unknown, -1},
		"replaced":                    {[]past{{25, up, "cart-3", "cart-1"}, {26, incident, "cart-3", ""}}, timeline.Unknown, -1},
	} {
		for _, pending := range []bool{false, true} {
			s := &v1alpha1.CDEventSubject{}
			var all []v1alpha1.PastTransition
			for i, e := range c.events {
				n := int64(i + 1)
				s.Status.Sequence = n
				if !pending {
					all = append(all, v1alpha1.PastTransition{Sequence: n, Time: metav1.NewMicroTime(minute(e.at)), Type: string(e.kind), Revision: e.revision, Previous: e.previous})
					continue
				}
				raw, err := json.Marshal(lifecycle.Transition{Sequence: n, Type: e.kind, Revision: &lifecycle.Revision{Name: e.revision}, Previous: &lifecycle.Revision{Name: e.previous}})
				if err != nil {
					t.Fatal(err)
				}
				s.Status.Journal = append(s.Status.Journal, v1alpha1.JournalEntry{Sequence: n, Time: metav1.NewMicroTime(minute(e.at)), Type: string(e.kind), Transition: runtime.RawExtension{Raw: raw}})
			}
			s.Status.History = fleet.History(all...)
			line, err := timeline.Of(s)
			if err != nil {
				t.Fatal(err)
			}
			is, at := line.Fate("cart-2", minute(10), minute(20))
			if is != c.want || c.at >= 0 && !at.Equal(minute(c.at)) || c.at < 0 && !at.IsZero() {
				t.Errorf("%s: %s at %s, want %s at minute %d", name, is, at, c.want, c.at)
			}
		}
	}
}

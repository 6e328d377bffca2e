// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// A client reads the times of an object in the zone of its machine; programs get the same text on each machine.
func TestTimesAreInUTC(t *testing.T) {
	t.Parallel()
	at := metav1.NewMicroTime(time.Date(2040, 1, 2, 12, 0, 0, 0, time.FixedZone("elsewhere", 19800)))
	s := &v1alpha1.CDEventSubject{Spec: v1alpha1.CDEventSubjectSpec{Name: "cart"}}
	s.Status.Sequence, s.Status.LastEvent, s.Status.LastEventTime = 3, "deployed", &at
	s.Status.Journal = []v1alpha1.JournalEntry{{Sequence: 2, Type: "revisionReady", Time: at}}
	got, _ := Of(s)
	if len(got.Events) == 0 {
		t.Fatal("no events")
	}
	for _, e := range got.Events {
		if e.Time.Location() != time.UTC {
			t.Errorf("event %d is at %s", e.Sequence, e.Time)
		}
	}
}

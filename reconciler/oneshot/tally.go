// SPDX-License-Identifier: Apache-2.0

package oneshot

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// tallies are what the ledger has about each source. They are a source.Deliveries.
type tallies map[types.UID]*tally

type tally struct {
	pending      int64
	oldest, last time.Time
	trouble      string
}

func (t tallies) of(source types.UID) *tally {
	if t[source] == nil {
		t[source] = &tally{}
	}
	return t[source]
}

// add counts an entry.
func (t tallies) add(e *v1alpha1.CDEventSubject) {
	st := &e.Status
	for _, j := range st.Journal {
		for _, r := range j.Recipients {
			if j.Sequence <= st.Acknowledged[r.Source] {
				continue
			}
			s := t.of(r.Source)
			if s.pending++; s.oldest.IsZero() || j.Time.Time.Before(s.oldest) {
				s.oldest = j.Time.Time
			}
		}
	}
	for source, sequence := range st.Acknowledged {
		// The sink has accepted the last event, and not before that happened.
		if s := t.of(source); st.LastEventTime != nil && sequence == st.Sequence && st.LastEventTime.After(s.last) {
			s.last = st.LastEventTime.Time
		}
	}
	for _, a := range st.Attempts {
		if a.Tries > 0 {
			t.of(a.Source).trouble = fmt.Sprintf("the oldest pending event about %s %s/%s was tried %d times; the next attempt is due at %s",
				e.Spec.Kind, e.Spec.Namespace, e.Spec.Name, a.Tries, a.NotBefore.UTC().Format(time.RFC3339))
		}
	}
}

// SourceStatus implements source.Deliveries.
func (t tallies) SourceStatus(uid types.UID) (pending int64, oldest, last time.Time, trouble string) {
	s := t[uid]
	if s == nil {
		return 0, oldest, last, ""
	}
	return s.pending, s.oldest, s.last, s.trouble
}

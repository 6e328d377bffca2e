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

// standing is what is pending for a source.
type standing struct {
	source  string
	pending int64
	oldest  time.Time
}

// standings are what is pending for each source that exists.
func (t tallies) standings(sources []*v1alpha1.CDEventSource) *[]standing {
	out := make([]standing, 0, len(sources))
	for _, s := range sources {
		pending, oldest, _, _ := t.SourceStatus(s.UID)
		out = append(out, standing{s.Namespace + "/" + s.Name, pending, oldest})
	}
	return &out
}

// Standings tells for each source what was pending for it when the last sweep counted: how many events, and since when
// the oldest. Before the first sweep, it tells nothing.
func (c *Core) Standings(observe func(source string, pending int64, oldest time.Time)) {
	if all := c.counted.Load(); all != nil {
		for _, s := range *all {
			observe(s.source, s.pending, s.oldest)
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

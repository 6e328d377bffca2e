// SPDX-License-Identifier: Apache-2.0

// Package timeline tells what happened to an object, from its entry in the ledger.
//
// Its invariant: it is pure, and says only what the entry holds. The ledger keeps every event that is not
// delivered, and the last 20 in short. Of older ones it keeps what later decisions need: those that last
// brought traffic to each Revision, and those that announced an incident that is not over.
package timeline

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Event is one thing that happened.
type Event struct {
	// Sequence is the number of the transition, from 1 on. It is 0 for what is not in the ledger.
	Sequence int64 `json:"sequence,omitempty"`
	// Time is when it was observed.
	Time time.Time `json:"time"`
	// Type is the type of the CDEvent, such as dev.cdevents.service.upgraded.0.3.0. It is empty
	// for what is not an event.
	Type string `json:"type,omitempty"`
	// Text says what happened.
	Text string `json:"text"`
	// Split is how the traffic is split after it, largest share first. It is empty if that is not known, or if the event
	// is not about traffic.
	Split lifecycle.Split `json:"traffic,omitempty"`
	// Outcome is how what happened has turned out; empty for what has no outcome.
	Outcome Outcome `json:"outcome,omitempty"`
	// AcknowledgedBy lists the sources that have acknowledged this event or a later one. Filters of a source may have
	// left the event out.
	AcknowledgedBy []types.UID `json:"-"`
	// PendingFor lists the sources for which the event is pending.
	PendingFor []types.UID `json:"-"`

	kind lifecycle.Type
	// withdrawn is the canary that lost all its traffic, if the event is about that.
	withdrawn string
	// revision is the Revision that the event is about, and previous the one that had the traffic before.
	revision, previous string
}

// Timeline is what the ledger holds of an object.
type Timeline struct {
	// Events are in order, oldest first.
	Events []Event
	// Sequence is how many transitions there have been.
	Sequence int64
	// Dropped counts dropped events, by reason.
	Dropped map[string]int64
	// Acknowledged is, for each source, the number of the transition up to which nothing is pending.
	Acknowledged map[types.UID]int64
}

// Of reads an entry of the ledger.
func Of(s *v1alpha1.CDEventSubject) (Timeline, error) {
	st := &s.Status
	t := Timeline{Sequence: st.Sequence, Dropped: st.Dropped, Acknowledged: st.Acknowledged}
	known := map[int64]Event{}
	add := func(e Event) {
		// What comes first says most.
		before, has := known[e.Sequence]
		switch {
		case e.Sequence <= 0 || e.Sequence > st.Sequence:
		case !has:
			known[e.Sequence] = e
		case before.Split == nil:
			before.Split = e.Split
			known[e.Sequence] = before
		}
	}
	pending := map[int64][]types.UID{}
	for _, j := range st.Journal {
		for _, r := range j.Recipients {
			if j.Sequence > st.Acknowledged[r.Source] {
				pending[j.Sequence] = append(pending[j.Sequence], r.Source)
			}
		}
		add(journaled(s, j))
	}
	past, unreadable := st.PastTransitions()
	for _, p := range past {
		t := transition(p)
		add(Event{
			Sequence: p.Sequence, Time: p.Time.UTC(), kind: t.Type, Text: Text(s.Spec.Name, t), Split: after(t),
			withdrawn: withdrawn(t), Outcome: outcome(t), revision: p.Revision, previous: p.Previous,
		})
	}
	remembered, split, err := remember(s)
	err = errors.Join(unreadable, err)
	for _, e := range remembered {
		add(e)
	}
	if st.LastEventTime != nil {
		kind := lifecycle.Type(st.LastEvent)
		text := brief(kind, "")
		if kind == lifecycle.TrafficShifted && len(split) > 0 {
			text = "traffic is now " + split.String()
		}
		add(Event{Sequence: st.Sequence, Time: st.LastEventTime.UTC(), kind: kind, Text: text})
	}
	if last, has := known[st.Sequence]; has && last.Split == nil {
		last.Split = split
		known[st.Sequence] = last
	}
	for _, sequence := range slices.Sorted(maps.Keys(known)) {
		e := known[sequence]
		e.Type = TypeOf(e.kind)
		if e.Outcome == "" {
			e.Outcome = OutcomeOf(e.kind, "")
		}
		e.PendingFor = pending[sequence]
		for source, upTo := range st.Acknowledged {
			if upTo >= sequence && !slices.Contains(e.PendingFor, source) {
				e.AcknowledgedBy = append(e.AcknowledgedBy, source)
			}
		}
		slices.Sort(e.AcknowledgedBy)
		t.Events = append(t.Events, e)
	}
	return t, err
}

// TypeOf returns the type of the CDEvent for a transition, or the transition's own if it has none.
func TypeOf(kind lifecycle.Type) string {
	if typ, err := cdevents.Type(cdevents.Version05, kind); err == nil {
		return typ
	}
	return string(kind)
}

// Short returns what people call the event.
func (e Event) Short() string { return Short(e.kind) }

// Short returns what people call an event: "service.upgraded" for dev.cdevents.service.upgraded.0.3.0.
func Short(kind lifecycle.Type) string {
	typ := TypeOf(kind)
	for _, prefix := range []string{"dev.cdevents.", "dev.cdeventsx.knative-", "dev.cdeventsx.stateful-", "dev.cdeventsx."} {
		if rest, ok := strings.CutPrefix(typ, prefix); ok {
			parts := strings.Split(rest, ".")
			return strings.Join(parts[:min(2, len(parts))], ".")
		}
	}
	return typ
}

// journaled tells of an event that is not delivered.
func journaled(s *v1alpha1.CDEventSubject, j v1alpha1.JournalEntry) Event {
	e := Event{Sequence: j.Sequence, Time: j.Time.UTC(), kind: lifecycle.Type(j.Type)}
	var t lifecycle.Transition
	if json.Unmarshal(j.Transition.Raw, &t) != nil || t.Type == "" {
		e.Text = brief(e.kind, "") // the controller gives it up, and counts it
		return e
	}
	e.Text, e.Split, e.Outcome = Text(s.Spec.Name, t), t.Traffic, outcome(t)
	for of, name := range map[*lifecycle.Revision]*string{t.Revision: &e.revision, t.Previous: &e.previous} {
		if of != nil {
			*name = of.Name
		}
	}
	return e
}

// remember tells what the memory of an object refers to, and how the traffic is split now.
func remember(s *v1alpha1.CDEventSubject) ([]Event, lifecycle.Split, error) {
	if s.Status.Memory == "" {
		return nil, nil, nil
	}
	var m struct {
		Traffic   lifecycle.Split                          `json:"traffic"`
		Held      *lifecycle.Held                          `json:"held"`
		Last      *lifecycle.TransitionRef                 `json:"last"`
		Revisions map[string]lifecycle.KnownRevision       `json:"revisions"`
		Episodes  map[lifecycle.Incident]lifecycle.Episode `json:"episodes"`
	}
	if err := json.Unmarshal([]byte(s.Status.Memory), &m); err != nil {
		return nil, nil, fmt.Errorf("reading the memory in CDEventSubject %s: %w", s.Name, err)
	}
	var out []Event
	add := func(ref *lifecycle.TransitionRef, text string) {
		if ref != nil {
			out = append(out, Event{Sequence: ref.Sequence, Time: ref.Time, kind: ref.Type, Text: text})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Revisions)) {
		if ref := m.Revisions[name].Arrived; ref != nil {
			add(ref, brief(ref.Type, name))
			out[len(out)-1].revision = name
			if ref.Type == lifecycle.Upgraded {
				out[len(out)-1].Split = lifecycle.Split{{Revision: name, Percent: 100}}
			}
		}
	}
	for kind, e := range m.Episodes {
		if e.Detected != nil {
			add(e.Detected, fmt.Sprintf("incident %s: not over", kind))
		}
	}
	if m.Last != nil {
		add(m.Last, brief(m.Last.Type, ""))
	}
	slices.SortStableFunc(out, func(a, b Event) int { return cmp.Compare(a.Sequence, b.Sequence) })
	if m.Held != nil {
		m.Traffic = nil // steps after the newest event, which are not announced yet
	}
	return out, m.Traffic, nil
}

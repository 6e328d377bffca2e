// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/dora"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Reasons for which an event is dropped. Each is counted.
const (
	DroppedJournalFull     = v1alpha1.DroppedJournalFull
	DroppedRejected        = v1alpha1.DroppedRejected
	DroppedSourceRemoved   = v1alpha1.DroppedSourceRemoved
	DroppedUnreadable      = v1alpha1.DroppedUnreadable
	DroppedSelectorInvalid = v1alpha1.DroppedSelectorInvalid
	DroppedTooManySources  = v1alpha1.DroppedTooManySources
	DroppedSourceTooLarge  = v1alpha1.DroppedSourceTooLarge
	DroppedTooManyLabels   = v1alpha1.DroppedTooManyLabels
	DroppedForgotten       = v1alpha1.DroppedForgotten
)

// DroppedReasons returns all reasons.
func DroppedReasons() []string {
	return []string{
		DroppedJournalFull, DroppedRejected, DroppedSourceRemoved, DroppedUnreadable, DroppedSelectorInvalid,
		DroppedTooManySources, DroppedSourceTooLarge, DroppedTooManyLabels, DroppedForgotten,
	}
}

// edit makes the next state of a CDEventSubject.
type edit struct {
	current, next *v1alpha1.CDEventSubject
	changed       bool
	// folds says that it takes over acknowledgements. To observe an object is no reason to write them.
	folds bool
	// missing says that the object was deleted by hand. Current is its last state.
	missing bool
	// acked and dropped are the acknowledgements and drops that this edit takes over.
	acked   map[types.UID]int64
	dropped map[drop]bool
	// pending are the sources with a new pending event; lost counts what was dropped, by
	// reason.
	pending map[types.UID]bool
	lost    map[string]int64
	// before is the number of the newest transition that was journaled before.
	before int64
	// omitted are the sources whose events would make the object too large.
	omitted []types.UID
	// traced are the new transitions, as they were decided.
	traced []lifecycle.Transition
	// refused are the sources that do not receive an event, once for each event.
	refused []Recipient
}

func newEdit(current *v1alpha1.CDEventSubject, spec v1alpha1.CDEventSubjectSpec, acked map[types.UID]int64,
	dropped map[drop]bool,
) *edit {
	e := &edit{current: current, acked: acked, dropped: dropped, pending: map[types.UID]bool{}, lost: map[string]int64{}}
	if current != nil {
		e.next, e.before = current.DeepCopy(), current.Status.Sequence
		e.dropUnreadable()
	} else {
		e.next = &v1alpha1.CDEventSubject{ObjectMeta: metav1.ObjectMeta{Name: Name(spec)}, Spec: spec}
	}
	e.acknowledge()
	return e
}

// dropUnreadable drops what can never be sent or acknowledged, before new transitions get their
// numbers: the drop of an entry with such a number would acknowledge the transition.
func (e *edit) dropUnreadable() {
	st := &e.next.Status
	for i := range st.Journal {
		j := &st.Journal[i]
		j.Recipients = slices.DeleteFunc(j.Recipients, func(r v1alpha1.Recipient) bool {
			if !outOfRange(*j, st) && r.Source != "" {
				return false
			}
			e.lost[DroppedUnreadable]++
			e.changed = true
			return true
		})
	}
}

// acknowledge takes over drops and acknowledgements. A source moves forward, never back.
func (e *edit) acknowledge() {
	st := &e.next.Status
	for source, seq := range st.Acknowledged {
		st.Acknowledged[source] = min(seq, st.Sequence) // an edited one would count for events that are still to come
	}
	for d := range e.dropped {
		if e.current == nil || d.sequence <= st.Acknowledged[d.source] {
			continue // it was counted by a write whose answer was lost, or by another leader
		}
		if st.Dropped == nil {
			st.Dropped = map[string]int64{}
		}
		st.Dropped[d.reason]++
		e.changed = true
	}
	for source, seq := range e.acked {
		if e.current == nil || seq <= st.Acknowledged[source] || seq > st.Sequence {
			continue
		}
		if st.Acknowledged == nil {
			st.Acknowledged = map[types.UID]int64{}
		}
		st.Acknowledged[source] = seq
		e.folds = true
	}
}

// journal adds transitions and the resulting memory.
func (e *edit) journal(c Change, router Router) error {
	st := &e.next.Status
	labels, exists, err := router.NamespaceLabels(e.next.Spec.Namespace)
	if err != nil {
		return fmt.Errorf("reading the labels of namespace %s: %w", e.next.Spec.Namespace, err)
	}
	selected := LabelsOf(c.Memory)
	if exists {
		if selected.Namespace = labels; labels == nil {
			selected.Namespace = map[string]string{}
		}
	}
	for source := range st.Acknowledged {
		if !router.Exists(source) && !pendingFor(st, source) {
			delete(st.Acknowledged, source)
		}
	}
	memory, err := json.Marshal(c.Memory.Stored(selected.Namespace))
	if err != nil {
		return fmt.Errorf("encoding the memory: %w", err)
	}
	e.changed = true
	st.Removed = c.Memory.Gone()
	e.conditions(c)
	st.Waits, st.Due = Waits(c.Waits), v1alpha1.Micro(c.Due)
	st.Replayed = append(known(st.Replayed, router), c.Replay...)
	recipients := make([][]Recipient, len(c.Transitions))
	for i, t := range c.Transitions {
		recipients[i] = router.Recipients(e.next.Spec, selected, t)
		switch {
		case len(c.Replay) > 0:
			recipients[i] = onlyReplayed(recipients[i], c.Replay)
		case t.Type.ShowsPresence():
			// A source that receives this event needs no replay.
			st.Replayed = append(st.Replayed, router.Replays(e.next.Spec, st.Replayed, func() Labels { return selected })...)
		}
		recipients[i] = e.refuse(recipients[i])
	}
	if err := e.omitLargest(recipients); err != nil {
		return err
	}
	for i, t := range c.Transitions {
		if err := e.add(t, recipients[i]); err != nil {
			return err
		}
	}
	st.Memory = string(memory)
	return nil
}

// maxUnknown is how many sources that do not exist, as far as is known, stay among those that have the present state.
const maxUnknown = 16

// known drops sources that were deleted, the oldest first. The newest may be ones that this process does not know yet:
// another leader was ahead of it, and they would receive the present state twice.
func known(replayed []types.UID, router Router) []types.UID {
	var out []types.UID
	unknown := 0
	for _, source := range slices.Backward(replayed) {
		if !router.Exists(source) {
			if unknown++; unknown > maxUnknown {
				continue
			}
		}
		out = append(out, source)
	}
	slices.Reverse(out)
	return out
}

// refuse sets aside refused recipients. They are counted after the write.
func (e *edit) refuse(all []Recipient) []Recipient {
	return slices.DeleteFunc(all, func(r Recipient) bool {
		if r.Refused == nil {
			return false
		}
		e.refused = append(e.refused, r)
		return true
	})
}

// add journals one transition for its recipients.
func (e *edit) add(t lifecycle.Transition, to []Recipient) error {
	st, at := &e.next.Status, metav1.NewMicroTime(t.Time)
	if t.Sequence <= st.Sequence {
		return fmt.Errorf("transition %d (%s) would follow transition %d: status.memory is not that of status.sequence; %s",
			t.Sequence, t.Type, st.Sequence, untilRepaired)
	}
	st.Sequence, st.LastEvent, st.LastEventTime = t.Sequence, string(t.Type), &at
	st.Performance = dora.Count(st.Performance, t)
	var err error
	if st.History, err = appendHistory(st.History, t); err != nil {
		return err
	}
	if len(to) == 0 {
		return nil
	}
	raw, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encoding transition %d (%s): %w", t.Sequence, t.Type, err)
	}
	entry := v1alpha1.JournalEntry{
		Sequence: t.Sequence, Time: at, Type: string(t.Type), Transition: runtime.RawExtension{Raw: raw},
	}
	for _, r := range to {
		profile, err := e.profile(r.Profile)
		if err != nil {
			return err
		}
		entry.Recipients = append(entry.Recipients,
			v1alpha1.Recipient{Source: r.Source, Profile: profile, Undecided: r.Undecided})
		e.pending[r.Source] = true
	}
	st.Journal = append(st.Journal, entry)
	return nil
}

// onlyReplayed chooses the recipients of a replay. Their events have ids of their own, because
// others received the same state when it was new.
func onlyReplayed(recipients []Recipient, to []types.UID) []Recipient {
	recipients = slices.DeleteFunc(recipients, func(r Recipient) bool { return !slices.Contains(to, r.Source) })
	for i := range recipients {
		recipients[i].Profile.Replay = recipients[i].Source
	}
	return recipients
}

// profile stores a rendering profile under a name that is made from its content.
func (e *edit) profile(p v1alpha1.Profile) (string, error) {
	name, err := profileName(p)
	if err != nil {
		return "", err
	}
	if e.next.Status.Profiles == nil {
		e.next.Status.Profiles = map[string]v1alpha1.Profile{}
	}
	e.next.Status.Profiles[name] = p
	return name, nil
}

func profileName(p v1alpha1.Profile) (string, error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("encoding a rendering profile: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), nil
}

// finish removes what is no longer pending and updates the summary fields.
func (e *edit) finish(operator func(types.UID) bool) {
	st := &e.next.Status
	for i := range st.Journal {
		j := &st.Journal[i]
		j.Recipients = slices.DeleteFunc(j.Recipients, func(r v1alpha1.Recipient) bool { return !isPending(st, *j, r) })
	}
	st.Journal = slices.DeleteFunc(st.Journal, func(j v1alpha1.JournalEntry) bool { return len(j.Recipients) == 0 })
	used := profilesUsed(st.Journal)
	maps.DeleteFunc(st.Profiles, func(name string, _ v1alpha1.Profile) bool { return !used[name] })
	st.Attempts = slices.DeleteFunc(st.Attempts, func(a v1alpha1.Attempt) bool { return !awaits(st, a) })
	e.bound(operator)
	st.Pending, st.OldestPending = 0, nil
	for i := range st.Journal {
		j := &st.Journal[i]
		if st.OldestPending == nil {
			st.OldestPending = &j.Time
		}
		st.Pending += int64(len(j.Recipients))
	}
	e.condition()
}

func isPending(st *v1alpha1.CDEventSubjectStatus, j v1alpha1.JournalEntry, r v1alpha1.Recipient) bool {
	return j.Sequence > st.Acknowledged[r.Source]
}

func pendingFor(st *v1alpha1.CDEventSubjectStatus, source types.UID) bool {
	return slices.ContainsFunc(st.Journal, func(j v1alpha1.JournalEntry) bool {
		return slices.ContainsFunc(j.Recipients, func(r v1alpha1.Recipient) bool { return r.Source == source })
	})
}

// ConditionDelivered is the condition that is False while an event is pending.
const ConditionDelivered = "Delivered"

// condition describes what is pending. Its time comes from the journal, so that two leaders
// write the same.
func (e *edit) condition() {
	st := &e.next.Status
	if st.LastEventTime == nil {
		meta.RemoveStatusCondition(&st.Conditions, ConditionDelivered)
		return // a baseline: no event was ever pending
	}
	c := metav1.Condition{
		Type: ConditionDelivered, Status: metav1.ConditionTrue, Reason: "NothingPending",
		Message: "all events are acknowledged",
	}
	if st.Pending > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, "EventsPending"
		c.Message = fmt.Sprintf("%d event(s) are pending, and the oldest is of type %s", st.Pending, st.Journal[0].Type)
	}
	c.LastTransitionTime = metav1.NewTime(st.LastEventTime.Time)
	meta.SetStatusCondition(&st.Conditions, c)
}

// conditions takes over the conditions that the kind of the object sets.
func (e *edit) conditions(c Change) {
	st := &e.next.Status
	st.Conditions = slices.DeleteFunc(st.Conditions, func(has metav1.Condition) bool {
		return has.Type != ConditionDelivered &&
			!slices.ContainsFunc(c.Conditions, func(is metav1.Condition) bool { return is.Type == has.Type })
	})
	for _, is := range c.Conditions {
		is.LastTransitionTime = metav1.NewTime(c.At)
		meta.SetStatusCondition(&st.Conditions, is)
	}
}

// in says whether a later state has come from this one. Another leader's transitions have other times.
func (e *edit) in(s *v1alpha1.CDEventSubject) bool {
	st := &e.next.Status
	if st.Sequence == e.before {
		return s.Status.Sequence == st.Sequence && maps.Equal(s.Status.Dropped, st.Dropped)
	}
	past, err := s.Status.PastTransitions()
	return err == nil && slices.ContainsFunc(past, func(t v1alpha1.PastTransition) bool {
		return t.Sequence == st.Sequence && t.Time.Time.Equal(st.LastEventTime.Truncate(time.Microsecond))
	})
}

// done says that the object is gone and no event is pending.
func (e *edit) done() bool { return Finished(e.next) }

// Finished reports whether the object of a CDEventSubject is gone, and no event about it is pending. The CDEventSubject
// is then not needed any more.
func Finished(s *v1alpha1.CDEventSubject) bool {
	return s.Status.Removed && len(s.Status.Journal) == 0
}

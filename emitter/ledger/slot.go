// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger/wal"
)

// AcknowledgementsKind is the spec.kind of the slots: CDEventSubjects with acknowledgements about others. What a slot says
// is a fact, whoever wrote it and whenever: a source has received exactly those events. No order between slots matters.
const AcknowledgementsKind = "Acknowledgements"

// AcknowledgementsLabel is a label that the slots have, and no other CDEventSubject.
const AcknowledgementsLabel = "knative-cdevents.dev/acknowledgements"

const slotPrefix = "acknowledgements-"

var (
	createOptions = metav1.CreateOptions{}
	updateOptions = metav1.UpdateOptions{}
	getOptions    = metav1.GetOptions{}
)

// slot is what this process knows of one slot.
type slot struct {
	// object is the newest known state, nil if there is none.
	object *v1alpha1.CDEventSubject
	// members are the subjects that this process has written to it. Those whose slot is another have left.
	members []*subject
}

func slotName(number int) string { return fmt.Sprintf("%s%02d", slotPrefix, number) }

// slotNumber is the inverse of slotName.
func slotNumber(name string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimPrefix(name, slotPrefix))
	return n, err == nil && n >= 0 && slotName(n) == name
}

// emptied is the next state of the slot, without acknowledgements.
func (s *slot) emptied(number int) *v1alpha1.CDEventSubject {
	name := slotName(number)
	out := &v1alpha1.CDEventSubject{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{AcknowledgementsLabel: "true"}},
		Spec: v1alpha1.CDEventSubjectSpec{
			APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: AcknowledgementsKind, Name: strings.TrimPrefix(name, slotPrefix), UID: types.UID(name),
		},
	}
	if s.object != nil {
		out.ObjectMeta, out.Spec = *s.object.ObjectMeta.DeepCopy(), s.object.Spec
	}
	out.Status.Acknowledgements = map[types.UID]map[string]string{}
	return out
}

// heldLocked returns the subjects whose acknowledgements are in this slot and not folded.
func (s *slot) heldLocked() []*subject {
	s.members = slices.DeleteFunc(s.members, func(sub *subject) bool { return sub.slot != s })
	return s.members
}

// enter adds the acknowledgements of a subject to a slot. It returns how many they are.
func enter(s *v1alpha1.CDEventSubject, sub *subject) int {
	n := 0
	for source, sequence := range sub.acked {
		sum := digest(sub.object, source, sequence)
		if sum == "" {
			continue // no event of this source is pending
		}
		n++
		if s.Status.Acknowledgements[source] == nil {
			s.Status.Acknowledgements[source] = map[string]string{}
		}
		s.Status.Acknowledgements[source][sub.name] = strconv.FormatInt(sequence, 10) + " " + sum
	}
	return n
}

// digest identifies what is pending for a source up to a sequence number. After a backup was restored, other events may have
// the same numbers. It is empty if nothing is pending.
func digest(s *v1alpha1.CDEventSubject, source types.UID, upTo int64) string {
	if s == nil {
		return ""
	}
	h, pending := sha256.New(), false
	for _, j := range s.Status.Journal {
		r, ok := recipient(j, source)
		if !ok || j.Sequence > upTo || outOfRange(j, &s.Status) {
			continue
		}
		pending = true
		var size [16]byte
		binary.BigEndian.PutUint64(size[:8], uint64(j.Sequence)) //nolint:gosec // never negative
		binary.BigEndian.PutUint64(size[8:], uint64(len(j.Transition.Raw)))
		h.Write(size[:])
		h.Write(j.Transition.Raw)
		h.Write([]byte(r.Profile))
	}
	if !pending {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// acknowledged returns up to which sequence number a slot's entry acknowledges events of a CDEventSubject, 0 for none.
func acknowledged(s *v1alpha1.CDEventSubject, source types.UID, entry string) int64 {
	number, sum, _ := strings.Cut(entry, " ")
	sequence, err := strconv.ParseInt(number, 10, 64)
	if err != nil || s == nil || sequence <= s.Status.Acknowledged[source] || sequence > s.Status.Sequence || sum == "" || digest(s, source, sequence) != sum {
		return 0
	}
	return sequence
}

// observeSlot takes over a slot that the informer has seen.
func (l *Ledger) observeSlot(s *v1alpha1.CDEventSubject) {
	number, ok := slotNumber(s.Name)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !ok || number >= l.gathered.Slots {
		return // another version of this program has more
	}
	if known := l.gathered.slots[number].object; known == nil || newer(s.ResourceVersion, known.ResourceVersion) {
		l.takeSlotLocked(number, s)
	}
}

func (l *Ledger) takeSlotLocked(number int, object *v1alpha1.CDEventSubject) {
	l.gathered.slots[number].object = object
	for source, entries := range object.Status.Acknowledgements {
		for name, entry := range entries {
			if sub, ok := l.subjects[name]; ok {
				l.absorbLocked(sub, source, entry)
			}
		}
	}
	l.uncoverLocked(number)
}

// absorbLocked takes over an acknowledgement that a slot has.
func (l *Ledger) absorbLocked(sub *subject, source types.UID, entry string) {
	if l.discarded || acknowledgedUpTo(entry) <= sub.acked[source] {
		return // most are known, and a digest takes time
	}
	if sequence := acknowledged(sub.object, source, entry); sequence > sub.acked[source] {
		sub.acknowledgeLocked(source, sequence)
		l.gatherLocked(sub)
	}
}

// absorbAllLocked takes over what the slots have about the events of a subject.
func (l *Ledger) absorbAllLocked(sub *subject) {
	if sub.object == nil {
		return
	}
	seen := map[types.UID]bool{}
	for _, j := range sub.object.Status.Journal {
		for _, r := range j.Recipients {
			if seen[r.Source] {
				continue
			}
			seen[r.Source] = true
			for i := range l.gathered.slots {
				if o := l.gathered.slots[i].object; o != nil {
					if entry, ok := o.Status.Acknowledgements[r.Source][sub.name]; ok {
						l.absorbLocked(sub, r.Source, entry)
					}
				}
			}
		}
	}
}

// forgetSlot takes note that a slot was deleted, whichever it was if uid is empty.
func (l *Ledger) forgetSlot(number int, uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number >= l.gathered.Slots {
		return
	}
	s := &l.gathered.slots[number]
	if s.object == nil || uid != "" && s.object.UID != uid {
		return
	}
	s.object = nil
	l.uncoverLocked(number)
}

// IsSlot reports whether a CDEventSubject has what belongs to others: their newest states, or acknowledgements.
func IsSlot(s *v1alpha1.CDEventSubject) bool {
	return s.Spec.APIVersion == v1alpha1.SchemeGroupVersion.String() && (s.Spec.Kind == AcknowledgementsKind || s.Spec.Kind == wal.Kind)
}

// WithSlots returns CDEventSubjects as they are when the states and acknowledgements in the slots among them are folded, without the slots.
// It changes none of them in place. They are unpacked.
func WithSlots(all []v1alpha1.CDEventSubject) []v1alpha1.CDEventSubject {
	all = wal.Folded(all, Finished)
	acked := map[string]map[types.UID][]string{}
	for _, s := range all {
		for source, entries := range s.Status.Acknowledgements {
			for name, entry := range entries {
				if acked[name] == nil {
					acked[name] = map[types.UID][]string{}
				}
				acked[name][source] = append(acked[name][source], entry)
			}
		}
	}
	out := make([]v1alpha1.CDEventSubject, 0, len(all))
	for i := range all {
		if s := &all[i]; s.Spec.Kind != AcknowledgementsKind {
			out = append(out, *Unpacked(folded(s, acked[s.Name])))
		}
	}
	return out
}

func acknowledgedUpTo(entry string) int64 {
	number, _, _ := strings.Cut(entry, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// folded returns a CDEventSubject that has taken over entries of slots.
func folded(s *v1alpha1.CDEventSubject, entries map[types.UID][]string) *v1alpha1.CDEventSubject {
	upTo := map[types.UID]int64{}
	for source, all := range entries {
		for _, entry := range all {
			if n := acknowledged(s, source, entry); n > upTo[source] {
				upTo[source] = n
			}
		}
	}
	if len(upTo) == 0 {
		return s
	}
	e := newEdit(s, s.Spec, upTo, nil)
	e.finish(func(types.UID) bool { return false })
	return e.next
}

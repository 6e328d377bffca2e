// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// kept is what the ledger keeps of what lasts: since when, and when to look again. A process that forgets everything
// keeps it there. Any other knows it, and takes it out of the ledger, where it would outlive what it says.
func (f *fold) kept(m Memory) (waits map[lifecycle.Wait]time.Time, due time.Time) {
	if !f.o.Once {
		return nil, due
	}
	return m.Waits(), f.wake
}

// change is what a result has the ledger write.
func (f *fold) change(r Result) *ledger.Change {
	c := r.change()
	c.Waits, c.Due = f.kept(r.Memory)
	return c
}

// lasts reports whether the ledger must be told what lasts, although nothing is announced.
func (f *fold) lasts(current *v1alpha1.CDEventSubject, m Memory) bool {
	if current == nil || f.lagging {
		return false
	}
	waits, due := f.kept(m)
	switch st := &current.Status; {
	case !maps.EqualFunc(st.Waits, ledger.Waits(waits), sameTime), !sameDue(st.Due, v1alpha1.Micro(due)):
		return true
	case due.IsZero():
		return false
	}
	// Steps of a rollout that are held are announced then, if they are remembered.
	has, err := f.o.recall(current)
	return err == nil && !has.Covers(m) // an error was reported where the memory was used
}

func sameTime(a, b metav1.MicroTime) bool { return a.Time.Equal(b.Time) }

func sameDue(a, b *metav1.MicroTime) bool {
	return a == nil && b == nil || a != nil && b != nil && sameTime(*a, *b)
}

// stored returns the waits that another process has left in the ledger, by its clock. None began later than now.
func (f *fold) stored(current *v1alpha1.CDEventSubject) map[lifecycle.Wait]time.Time {
	if len(current.Status.Waits) == 0 {
		return nil
	}
	out := make(map[lifecycle.Wait]time.Time, len(current.Status.Waits))
	for w, since := range current.Status.Waits {
		if out[lifecycle.Wait(w)] = since.Time; since.After(f.now) {
			out[lifecycle.Wait(w)] = f.now
		}
	}
	return out
}

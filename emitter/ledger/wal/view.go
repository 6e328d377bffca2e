// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"cmp"
	"maps"
	"slices"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Folded returns CDEventSubjects with the newest states that the slots among them have, without the slots. It changes none of them in
// place. Finished is as in Options. A slot that cannot be read is left out.
func Folded(all []v1alpha1.CDEventSubject, finished func(*v1alpha1.CDEventSubject) bool) []v1alpha1.CDEventSubject {
	var slots []*v1alpha1.CDEventSubject
	for i := range all {
		if isSlot(&all[i]) {
			slots = append(slots, &all[i])
		}
	}
	if len(slots) == 0 {
		return all
	}
	slices.SortFunc(slots, func(a, b *v1alpha1.CDEventSubject) int { return cmp.Compare(a.Status.Sequence, b.Status.Sequence) })
	newest := map[string]*v1alpha1.CDEventSubject{}
	for _, o := range slots {
		c, err := contentOf(o)
		if err != nil {
			continue // the controller reports it
		}
		for _, s := range c.states {
			if later(s, newest[s.Name]) {
				newest[s.Name] = s
			}
		}
	}
	out := make([]v1alpha1.CDEventSubject, 0, len(all))
	for i := range all {
		s := &all[i]
		if isSlot(s) {
			continue
		}
		if n := newest[s.Name]; n != nil && later(n, s) {
			state := *n
			state.TypeMeta, state.ObjectMeta = s.TypeMeta, s.ObjectMeta
			s = &state
		}
		delete(newest, all[i].Name)
		out = append(out, *s)
	}
	for _, name := range slices.Sorted(maps.Keys(newest)) { // those that were deleted, and will be restored
		if s := newest[name]; !finished(s) {
			out = append(out, *s)
		}
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// Belated is a Memory of an object of which something is announced even if it arrives after the end of the object.
type Belated interface {
	Memory
	// Belated folds in a part of the object, which is gone.
	Belated(p Part, at time.Time) Result
}

// journalBelated journals what the parts that some steps bring say of objects that are gone. Present is the UID of the
// object that the steps show, empty if they show none.
func (f *fold) journalBelated(steps []step, present types.UID) error {
	belated := func(p Part) bool { return p.Volatile && p.Value != nil && p.Owner != "" && p.Owner != present }
	for _, p := range steps[0].Parts {
		if belated(p) {
			if err := f.journalPart(p, steps[0].At); err != nil {
				return err
			}
		}
	}
	for _, s := range steps[1:] {
		if belated(s.Changed) {
			if err := f.journalPart(s.Changed, s.At); err != nil {
				return err
			}
		}
	}
	return nil
}

// journalPart journals what a part says of its owner, if the ledger has its end.
func (f *fold) journalPart(p Part, at time.Time) error {
	for _, entry := range f.entries() {
		if entry.Spec.UID != p.Owner || !entry.Status.Removed {
			continue
		}
		err := f.o.Ledger.Journal(f.ctx, entry.Spec, func(current *v1alpha1.CDEventSubject) (*ledger.Change, error) {
			if current == nil || !current.Status.Removed {
				return nil, nil //nolint:nilnil // it is forgotten, or was never gone
			}
			memory, err := f.memory(current)
			if err != nil {
				return nil, err
			}
			m, ok := memory.(Belated)
			if !ok || !m.Gone() {
				return nil, nil //nolint:nilnil // nothing is announced any more
			}
			r := m.Belated(p, at)
			if len(r.Transitions) == 0 {
				return nil, nil //nolint:nilnil // it says nothing new
			}
			return f.change(r), nil
		})
		if err != nil {
			return fmt.Errorf("journaling what has arrived about %s (UID %s), which is gone: %w", f.key, p.Owner, err)
		}
	}
	return nil
}

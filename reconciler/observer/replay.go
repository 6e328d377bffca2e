// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// replay journals the present state for the sources that want it and have not received it.
func (f *fold) replay() error {
	for _, entry := range f.entries() {
		due, _, err := f.due(entry)
		if err != nil {
			return err
		}
		if len(due) == 0 {
			continue
		}
		err = f.o.Ledger.Journal(f.ctx, entry.Spec, func(current *v1alpha1.CDEventSubject) (*ledger.Change, error) {
			due, memory, err := f.due(current)
			if err != nil || len(due) == 0 {
				return nil, err
			}
			r := memory.Replay(f.now)
			if len(r.Transitions) == 0 {
				return nil, nil //nolint:nilnil // there is nothing to replay yet
			}
			change := f.change(r)
			change.Replay = due
			return change, nil
		})
		if err != nil {
			return fmt.Errorf("journaling the present state of %s for new sources: %w", f.key, err)
		}
	}
	return nil
}

// due names the sources that are to receive the present state of an object.
func (f *fold) due(current *v1alpha1.CDEventSubject) (sources []types.UID, memory Memory, err error) {
	if current == nil || current.Status.Removed {
		return nil, nil, nil
	}
	sources = f.o.Ledger.Replays(current, func() ledger.Labels {
		if memory, err = f.memory(current); err != nil {
			return ledger.Labels{}
		}
		return ledger.LabelsOf(memory)
	})
	return sources, memory, err
}

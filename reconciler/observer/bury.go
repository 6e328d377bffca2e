package observer

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// bury journals the end of every object of this name that has another UID than the present
// one. It asks the API server first: a cache that lags must not end an object that is there. It returns
// true if the end of one of them must wait; the object that has its name now must wait with it.
func (f *fold) bury(present types.UID, at time.Time) (wait bool, err error) {
	for _, entry := range f.entries() {
		if entry.Spec.UID == present || entry.Status.Removed {
			continue
		}
		live, err := f.o.Kind.Live(f.ctx, f.key)
		if err != nil {
			return false, fmt.Errorf("asking the API server whether %s is gone: %w", f.key, err)
		}
		if live == entry.Spec.UID {
			// The cache lags. The missing states will arrive as updates.
			f.lagging = true
			continue
		}
		err = f.o.Ledger.Journal(f.ctx, entry.Spec, func(current *v1alpha1.CDEventSubject) (*ledger.Change, error) {
			if current == nil {
				return nil, nil //nolint:nilnil // another leader has done it
			}
			memory, err := f.memory(current)
			if err != nil {
				return nil, err
			}
			r, err := memory.End(f.ctx, at)
			if err != nil {
				return nil, fmt.Errorf("deciding what its end means: %w", err)
			}
			if r.Wait {
				f.waiting[entry.Spec.UID], wait = r.Memory.Waits(), true
				f.recheck = r.Wake
				return nil, nil //nolint:nilnil // something else must be gone first
			}
			return r.change(), nil
		})
		if err != nil {
			return false, fmt.Errorf("journaling that %s (UID %s) is gone: %w", f.key, entry.Spec.UID, err)
		}
	}
	return wait, nil
}

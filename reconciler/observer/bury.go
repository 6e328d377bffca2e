package observer

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// bury journals the end of every object of this name that has another UID than the present
// one. It asks the API server first: a cache that lags must not end an object that is there.
func (f *fold) bury(present types.UID, at time.Time) error {
	for _, entry := range f.entries() {
		if entry.Spec.UID == present || entry.Status.Removed {
			continue
		}
		live, err := f.o.Kind.Live(f.ctx, f.key)
		if err != nil {
			return fmt.Errorf("asking the API server whether %s is gone: %w", f.key, err)
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
			return memory.End(at).change(), nil
		})
		if err != nil {
			return fmt.Errorf("journaling that %s (UID %s) is gone: %w", f.key, entry.Spec.UID, err)
		}
	}
	return nil
}

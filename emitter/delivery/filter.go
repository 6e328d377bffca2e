package delivery

import (
	"fmt"

	"github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Filters compiles and keeps the filters of sources, once for each generation.
// They are written by users: whatever is in them, evaluating one cannot stop the
// controller, and compiling one holds up nobody else's events.
type Filters struct{ compiled perGeneration[compiled] }

type compiled struct {
	filter Filter
	err    error
}

// NewFilters returns an empty set.
func NewFilters() *Filters { return &Filters{} }

// Passes says whether all filters of a source let an event through. An error says
// that it cannot be known.
func (f *Filters) Passes(s *v1alpha1.CDEventSource, ev event.Event) (bool, error) {
	c := f.of(s)
	if c.err != nil {
		return false, c.err
	}
	return evaluate(c.filter, ev)
}

// Forget drops what was compiled for a source that is gone.
func (f *Filters) Forget(uid types.UID) { f.compiled.forget(uid) }

func (f *Filters) of(s *v1alpha1.CDEventSource) *compiled {
	return f.compiled.of(s, func(s *v1alpha1.CDEventSource) compiled {
		filter, err := Compile(s.Spec.Filters)
		return compiled{filter, err}
	})
}

// evaluate survives a filter that panics.
func evaluate(f Filter, ev event.Event) (pass bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			pass, err = false, fmt.Errorf("spec.filters cannot be evaluated: %v", p)
		}
	}()
	return f.Passes(ev)
}

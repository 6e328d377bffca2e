package delivery

import (
	"fmt"
	"sync"

	"github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Filters compiles and keeps the filters of sources, once for each generation.
// They are written by users: whatever is in them, evaluating one cannot stop the
// controller, and compiling one holds up nobody else's events.
type Filters struct {
	mu       sync.Mutex
	bySource map[types.UID]*compiled
}

type compiled struct {
	generation int64
	once       sync.Once
	filter     Filter
	err        error
}

// NewFilters returns an empty set.
func NewFilters() *Filters { return &Filters{bySource: map[types.UID]*compiled{}} }

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
func (f *Filters) Forget(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.bySource, uid)
}

func (f *Filters) of(s *v1alpha1.CDEventSource) *compiled {
	f.mu.Lock()
	c := f.bySource[s.UID]
	if c == nil || c.generation != s.Generation {
		c = &compiled{generation: s.Generation}
		f.bySource[s.UID] = c
	}
	f.mu.Unlock()
	c.once.Do(func() { c.filter, c.err = Compile(s.Spec.Filters) })
	return c
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

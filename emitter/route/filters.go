// SPDX-License-Identifier: Apache-2.0

package route

import (
	"fmt"

	"github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Filters compiles the filters of sources, once per generation. Users write them: no filter
// can crash the controller, and compiling one delays no other source.
type Filters struct{ compiled perGeneration[compiled] }

type compiled struct {
	filter Filter
	err    error
}

// NewFilters returns an empty set.
func NewFilters() *Filters { return &Filters{} }

// Passes says whether an event passes all filters of a source. An error means that it is
// not known.
func (f *Filters) Passes(s *v1alpha1.CDEventSource, ev event.Event) (bool, error) {
	c := f.of(s)
	if c.err != nil {
		return false, c.err
	}
	return evaluate(c.filter, ev)
}

// Forget frees what is kept for a deleted source.
func (f *Filters) Forget(uid types.UID) { f.compiled.forget(uid) }

func (f *Filters) of(s *v1alpha1.CDEventSource) *compiled {
	return f.compiled.of(s, func(s *v1alpha1.CDEventSource) compiled {
		filter, err := Compile(s.Spec.Filters)
		return compiled{filter, err}
	})
}

// evaluate turns a panic of a filter into an error.
func evaluate(f Filter, ev event.Event) (pass bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			pass, err = false, fmt.Errorf("spec.filters cannot be evaluated: %v", p)
		}
	}()
	return f.Passes(ev)
}

// SPDX-License-Identifier: Apache-2.0

package route

import (
	"fmt"

	"github.com/cloudevents/sdk-go/sql/v2/utils"
	"github.com/cloudevents/sdk-go/v2/event"
)

// Filter decides whether an event passes. An error means that it is not known.
//
// A filter that decides in spite of another's error does decide, as one in "any" that
// passes. Eventing's own "all" and "any" treat an error as a no, and keep a goroutine each.
type Filter interface {
	Passes(ev event.Event) (bool, error)
}

type (
	allOf []Filter
	anyOf []Filter
	notOf struct{ Filter }
	// comparison compares attributes, as text, with what each of them must be like.
	comparison struct {
		with map[string]string
		by   func(value, text string) bool
	}
)

func (f allOf) Passes(ev event.Event) (bool, error) { return until(f, false, ev) }

func (f anyOf) Passes(ev event.Event) (bool, error) { return until(f, true, ev) }

func (f notOf) Passes(ev event.Event) (bool, error) {
	ok, err := f.Filter.Passes(ev)
	return !ok && err == nil, err
}

func (f comparison) Passes(ev event.Event) (bool, error) {
	for name, text := range f.with {
		value := utils.GetAttribute(ev, name)
		if value == nil || !f.by(fmt.Sprint(value), text) {
			return false, nil
		}
	}
	return true, nil
}

// until looks for a filter with the deciding answer. Without one, an error leaves the
// result unknown.
func until(filters []Filter, decides bool, ev event.Event) (bool, error) {
	var unknown error
	for _, f := range filters {
		ok, err := f.Passes(ev)
		switch {
		case err != nil:
			if unknown == nil {
				unknown = err
			}
		case ok == decides:
			return decides, nil
		}
	}
	return !decides && unknown == nil, unknown
}

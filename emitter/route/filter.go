// SPDX-License-Identifier: Apache-2.0

package route

import (
	"context"

	"github.com/cloudevents/sdk-go/v2/event"
	"knative.dev/eventing/pkg/eventfilter"
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
	// leaf is a filter of Eventing; it compares strings.
	leaf struct{ eventfilter.Filter }
)

func (f allOf) Passes(ev event.Event) (bool, error) { return until(f, false, ev) }

func (f anyOf) Passes(ev event.Event) (bool, error) { return until(f, true, ev) }

func (f notOf) Passes(ev event.Event) (bool, error) {
	ok, err := f.Filter.Passes(ev)
	return !ok && err == nil, err
}

func (f leaf) Passes(ev event.Event) (bool, error) {
	return f.Filter.Filter(context.Background(), ev) != eventfilter.FailFilter, nil
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

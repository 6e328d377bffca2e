// SPDX-License-Identifier: Apache-2.0

package route

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	cesqlerrors "github.com/cloudevents/sdk-go/sql/v2/errors"
	"github.com/cloudevents/sdk-go/sql/v2/utils"
	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Check returns every mistake in filters, tried on samples of all events. It is stricter
// than Compile: an expression that fails on a sample would hold such events, and one that
// reads an attribute that no sample has would let nothing pass.
func Check(filters []v1alpha1.Filter, samples []event.Event) error {
	compiled, err := compile(filters)
	if err != nil {
		return err
	}
	var errs []error
	for i, f := range compiled {
		for _, e := range expressions(f) {
			if err := e.try(samples); err != nil {
				errs = append(errs, fmt.Errorf("spec.filters[%d]: %w", i, err))
			}
		}
	}
	return errors.Join(errs...)
}

// expressions returns the CESQL expressions in a filter, nested ones included.
func expressions(f Filter) []*expression {
	var inside []Filter
	switch f := f.(type) {
	case *expression:
		return []*expression{f}
	case allOf:
		inside = f
	case anyOf:
		inside = f
	case notOf:
		inside = []Filter{f.Filter}
	}
	var out []*expression
	for _, f := range inside {
		out = append(out, expressions(f)...)
	}
	return out
}

func (e *expression) try(samples []event.Event) error {
	for _, ev := range samples {
		_, err := e.evaluate(ev)
		switch {
		case err == nil:
		case !cesqlerrors.IsMissingAttributeError(err):
			_, err = e.Passes(ev)
			return err
		default:
			name := missing(err)
			if !slices.ContainsFunc(samples, func(ev event.Event) bool { return utils.ContainsAttribute(ev, name) }) {
				return fmt.Errorf("no event of this source has the attribute %s that the CESQL expression %s reads, and an "+
					"event without it does not pass; "+
					"add it with spec.ceOverrides, or let events without it pass with NOT EXISTS %s OR (%s)",
					name, quoted(e.text), name, e.text)
			}
		}
	}
	return nil
}

// missing returns the attribute that a CESQL error names.
func missing(err error) string {
	_, name, _ := strings.Cut(err.Error(), ": ")
	return name
}

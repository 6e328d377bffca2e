// SPDX-License-Identifier: Apache-2.0

package route

import (
	"errors"
	"fmt"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// The limits of a source's filters. Too deep a recursion crashes the program, and the
// CESQL parser is quadratic in unclosed parentheses: 2 s for 4096, 1 ms for maxNesting.
const (
	maxFilters    = 64
	maxDepth      = 8
	maxExpression = 1024
	maxNesting    = 32
	// maxAttributes limits those that one filter compares, and maxCompared the text of each, in bytes.
	maxAttributes = 64
	maxCompared   = 4 << 10
)

// MaxExpressions limits the CESQL expressions of a source together, in bytes. Parsing takes
// nearly all of the time that checking a source can take.
const MaxExpressions = 4 << 10

// Compile returns one filter for a list, all of which must pass. Eventing's own compiler
// skips a filter that it cannot parse, and then lets everything pass.
func Compile(filters []v1alpha1.Filter) (Filter, error) { return compile(filters) }

func compile(filters []v1alpha1.Filter) (allOf, error) {
	if size := ExpressionSize(filters); size > MaxExpressions {
		return nil, fmt.Errorf("spec.filters has CESQL expressions of %d bytes; together they must not have more than "+
			"%d", size, MaxExpressions)
	}
	c := compiler{left: maxFilters}
	out := make(allOf, 0, len(filters))
	var errs []error
	for i := range filters {
		f, err := c.filter(&filters[i], maxDepth)
		if err != nil {
			errs = append(errs, fmt.Errorf("spec.filters[%d]: %w", i, err))
		}
		if c.left < 0 {
			break // there are too many to check
		}
		out = append(out, f)
	}
	if err := checkFilterText(filters); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return out, nil
}

// ExpressionSize returns the length of all CESQL expressions in filters, nested ones included,
// in bytes.
func ExpressionSize(filters []v1alpha1.Filter) int {
	size := 0
	for i := range filters {
		f := &filters[i]
		size += len(f.CESQL) + ExpressionSize(f.All) + ExpressionSize(f.Any)
		if f.Not != nil {
			size += ExpressionSize([]v1alpha1.Filter{*f.Not})
		}
	}
	return size
}

// compiler counts how many more filters are allowed.
type compiler struct{ left int }

func (c *compiler) filter(f *v1alpha1.Filter, depth int) (Filter, error) {
	c.left--
	switch {
	case c.left < 0:
		return nil, fmt.Errorf("there are more than %d filters, including nested ones; use fewer", maxFilters)
	case depth == 0:
		return nil, fmt.Errorf("the filters are nested more than %d levels deep; use fewer levels", maxDepth)
	}
	said := dialects(f)
	if len(said) > 1 {
		return nil, fmt.Errorf("it contains %s, but a filter can contain only one of these; make a separate filter of "+
			"each (all filters must pass)", strings.Join(said, " and "))
	}
	switch {
	case len(f.All) > 0:
		inside, err := c.filters(f.All, depth)
		return allOf(inside), err
	case len(f.Any) > 0:
		inside, err := c.filters(f.Any, depth)
		return anyOf(inside), err
	case f.Not != nil:
		inside, err := c.filter(f.Not, depth-1)
		return notOf{inside}, err
	case f.CESQL != "":
		return newExpression(f.CESQL)
	case len(f.Exact) > 0:
		return newComparison(f.Exact, func(value, text string) bool { return value == text })
	case len(f.Prefix) > 0:
		return newComparison(f.Prefix, strings.HasPrefix)
	case len(f.Suffix) > 0:
		return newComparison(f.Suffix, strings.HasSuffix)
	}
	return nil, errNotAFilter
}

func (c *compiler) filters(filters []v1alpha1.Filter, depth int) ([]Filter, error) {
	var out []Filter
	for i := range filters {
		f, err := c.filter(&filters[i], depth-1)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// dialects returns the dialects that a filter uses. Eventing applies the first one and
// ignores the others.
func dialects(f *v1alpha1.Filter) []string {
	var out []string
	for _, d := range []struct {
		name string
		said bool
	}{
		{"exact", len(f.Exact) > 0},
		{"prefix", len(f.Prefix) > 0},
		{"suffix", len(f.Suffix) > 0},
		{"all", len(f.All) > 0},
		{"any", len(f.Any) > 0},
		{"not", f.Not != nil},
		{"cesql", f.CESQL != ""},
	} {
		if d.said {
			out = append(out, d.name)
		}
	}
	return out
}

func newComparison(with map[string]string, by func(value, text string) bool) (Filter, error) {
	if len(with) > maxAttributes {
		return nil, fmt.Errorf("it compares %d attributes; it must not compare more than %d", len(with), maxAttributes)
	}
	for name, text := range with {
		switch {
		case len(text) > maxCompared:
			return nil, fmt.Errorf("it compares the attribute %s with %d bytes; it must not be more than %d", name, len(text),
				maxCompared)
		case name == "" || text == "":
			return nil, errNotAFilter
		case !v1alpha1.IsAttribute(name):
			return nil, fmt.Errorf("no event has an attribute %q: names of attributes have only lowercase letters and "+
				"digits", name)
		}
	}
	return comparison{with, by}, nil
}

var errNotAFilter = errors.New("it is empty or not valid; specify one of exact, prefix, suffix, any, all, not, cesql")

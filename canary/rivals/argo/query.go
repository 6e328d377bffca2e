// SPDX-License-Identifier: Apache-2.0

package argo

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/knative-cdevents/knative-cdevents/canary/rivals/flagger"
)

// Query is a query in PromQL about what is known of a canary: how many requests it had, by class of code, and their
// durations. Nothing else of PromQL is computed.
type Query struct{ expr parser.Expr }

// Counts are the canary's requests in a window.
type Counts struct {
	// Other is all that is neither a client error nor a server error.
	Other, ClientErrors, Errors float64
	// Bounds and Buckets are a histogram in seconds.
	Bounds, Buckets []float64
	// Long is how long the window is.
	Long time.Duration
}

// argument is an argument of a template. Its value does not matter in a selector, unless it is a code.
var argument = regexp.MustCompile(`\{\{[^{}]*\}\}`)

// someArgument stands for all of them.
const someArgument = "some_argument"

// ReadQuery returns a query, or why it cannot be computed.
func ReadQuery(text string) (*Query, error) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(argument.ReplaceAllString(text, someArgument))
	if err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	q := &Query{expr}
	_, err = q.Of(func(time.Duration, bool, bool) (Counts, error) { return Counts{}, nil })
	return q, err
}

// history returns what happened within some time before, or between the last two scrapes, with a histogram or without.
type history = func(within time.Duration, last, histogram bool) (Counts, error)

// Of computes the query.
func (q *Query) Of(counts history) (float64, error) {
	return value(q.expr, counts)
}

func value(of parser.Expr, counts history) (float64, error) {
	switch e := of.(type) {
	case *parser.ParenExpr:
		return value(e.Expr, counts)
	case *parser.NumberLiteral:
		return e.Val, nil
	case *parser.AggregateExpr:
		if e.Op == parser.SUM {
			return value(e.Expr, counts) // there is only one Revision
		}
	case *parser.BinaryExpr:
		a, err := value(e.LHS, counts)
		if err != nil {
			return 0, err
		}
		b, err := value(e.RHS, counts)
		if err != nil {
			return 0, err
		}
		switch e.Op {
		case parser.ADD:
			return a + b, nil
		case parser.SUB:
			return a - b, nil
		case parser.MUL:
			return a * b, nil
		case parser.DIV:
			return a / b, nil
		}
	case *parser.Call:
		return call(e, counts)
	}
	return 0, fmt.Errorf("%s cannot be computed from what is kept", of)
}

func call(e *parser.Call, counts history) (float64, error) {
	if e.Func.Name == "scalar" {
		return value(e.Args[0], counts)
	}
	last, histogram := e, e.Func.Name == "histogram_quantile"
	if histogram {
		inner := e.Args[1]
		if a, ok := inner.(*parser.AggregateExpr); ok && a.Op == parser.SUM && slices.Contains(a.Grouping, "le") {
			inner = a.Expr
		}
		last, _ = inner.(*parser.Call) //nolint:errcheck // nil otherwise
	}
	if last == nil || len(last.Args) != 1 || !slices.Contains([]string{"rate", "irate", "increase"}, last.Func.Name) {
		return 0, fmt.Errorf("%s cannot be computed from what is kept", e)
	}
	matrix, ok := last.Args[0].(*parser.MatrixSelector)
	if !ok {
		return 0, fmt.Errorf("%s cannot be computed from what is kept", last)
	}
	selector, ok := matrix.VectorSelector.(*parser.VectorSelector)
	if !ok || selector.OriginalOffset != 0 || selector.Timestamp != nil || selector.StartOrEnd != 0 {
		return 0, fmt.Errorf("%s is not about the time before", last)
	}
	if histogram != strings.HasSuffix(selector.Name, "_bucket") {
		return 0, fmt.Errorf("%s cannot be computed from what is kept", e)
	}
	classes, err := classes(selector.LabelMatchers)
	if err != nil {
		return 0, err
	}
	c, err := counts(matrix.Range, last.Func.Name == "irate", histogram)
	if err != nil {
		return 0, err
	}
	if histogram {
		quantile, err := value(e.Args[0], counts)
		if err != nil || slices.Contains(classes, false) {
			return 0, fmt.Errorf("%s: durations are not kept by code", e)
		}
		seconds := flagger.Quantile(quantile, c.Bounds, c.Buckets)
		if strings.Contains(selector.Name, "milliseconds") {
			seconds *= 1000
		}
		return seconds, nil
	}
	if strings.HasSuffix(selector.Name, "_sum") {
		return 0, fmt.Errorf("%s cannot be computed from what is kept", last)
	}
	n := 0.0
	for i, of := range []float64{c.Other, c.ClientErrors, c.Errors} {
		if classes[i] {
			n += of
		}
	}
	if last.Func.Name != "increase" {
		n /= c.Long.Seconds()
	}
	return n, nil
}

// codes are some of each class that is kept.
var codes = [][]string{{"200", "204", "302"}, {"400", "404", "429"}, {"500", "503", "504"}}

// codeLabel is the name of a label whose value is a status code or its class.
var codeLabel = regexp.MustCompile(`(^|_)(code|status|code_class)$`)

// classes returns the classes of codes that a selector selects. All other labels are taken to select the canary.
func classes(matchers []*labels.Matcher) ([]bool, error) {
	for _, m := range matchers {
		if codeLabel.MatchString(m.Name) && strings.Contains(m.Value, someArgument) {
			return nil, fmt.Errorf("the argument in %s is not known", m)
		}
	}
	out := make([]bool, len(codes))
	for i, class := range codes {
		matches := 0
		for _, code := range class {
			if selects(matchers, code) {
				matches++
			}
		}
		if out[i] = matches == len(class); !out[i] && matches > 0 {
			return nil, fmt.Errorf("it counts some codes like %s and not others, and what is kept does not tell them apart", class[0])
		}
	}
	return out, nil
}

func selects(matchers []*labels.Matcher, code string) bool {
	for _, m := range matchers {
		of := code
		if strings.HasSuffix(m.Name, "_class") {
			of = code[:1] + "xx"
		}
		if codeLabel.MatchString(m.Name) && !m.Matches(of) {
			return false
		}
	}
	return true
}

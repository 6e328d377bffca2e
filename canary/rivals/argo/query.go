// SPDX-License-Identifier: Apache-2.0

package argo

import (
	"errors"
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

// history returns what happened within some time before, or between the last two scrapes, with a histogram or without.
type history = func(within time.Duration, last, histogram bool) (Counts, error)

// someArgument stands for each argument of a template. Its value does not matter in a selector, unless it is a code.
const someArgument = "some_argument"

var argument = regexp.MustCompile(`\{\{[^{}]*\}\}`)

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

// Of computes the query.
func (q *Query) Of(counts history) (float64, error) { return value(q.expr, counts) }

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
		b, too := value(e.RHS, counts)
		is, known := map[parser.ItemType]float64{
			parser.ADD: a + b, parser.SUB: a - b, parser.MUL: a * b, parser.DIV: a / b,
		}[e.Op]
		if known || err != nil || too != nil {
			return is, errors.Join(err, too)
		}
	case *parser.Call:
		if e.Func.Name == "histogram_quantile" {
			quantile, err := value(e.Args[0], counts)
			c, _, name, too := counted(e.Args[1], counts, true)
			seconds := flagger.Quantile(quantile, c.Bounds, c.Buckets)
			if strings.Contains(name, "milliseconds") {
				seconds *= 1000
			}
			return seconds, errors.Join(err, too)
		}
		c, perSecond, _, err := counted(e, counts, false)
		n := c.Other + c.ClientErrors + c.Errors
		if perSecond {
			n /= c.Long.Seconds()
		}
		return n, err
	}
	return 0, fmt.Errorf("%s cannot be computed from what is kept", of)
}

// counted returns what a rate, an irate or an increase counts: requests, or the buckets of a histogram.
func counted(of parser.Expr, counts history, histogram bool) (c Counts, perSecond bool, name string, err error) {
	if a, is := of.(*parser.AggregateExpr); is && histogram && a.Op == parser.SUM && slices.Contains(a.Grouping, "le") {
		of = a.Expr
	}
	call, is := of.(*parser.Call)
	if !is || len(call.Args) != 1 || !slices.Contains([]string{"rate", "irate", "increase"}, call.Func.Name) {
		return c, false, "", fmt.Errorf("%s cannot be computed from what is kept", of)
	}
	matrix, is := call.Args[0].(*parser.MatrixSelector)
	if !is {
		return c, false, "", fmt.Errorf("%s cannot be computed from what is kept", of)
	}
	selector, is := matrix.VectorSelector.(*parser.VectorSelector)
	if !is || selector.OriginalOffset != 0 || selector.Timestamp != nil || selector.StartOrEnd != 0 ||
		strings.HasSuffix(selector.Name, "_bucket") != histogram || strings.HasSuffix(selector.Name, "_sum") {
		return c, false, "", fmt.Errorf("%s cannot be computed from what is kept", of)
	}
	if c, err = counts(matrix.Range, call.Func.Name == "irate", histogram); err != nil {
		return c, false, "", err
	}
	for n, codes := range map[*float64][]string{
		&c.Other: {"200", "204", "302"}, &c.ClientErrors: {"400", "404", "429"}, &c.Errors: {"500", "503", "504"},
	} {
		selected := slices.DeleteFunc(slices.Clone(codes), func(code string) bool {
			return !selects(selector.LabelMatchers, code)
		})
		switch {
		case len(selected) == len(codes):
		case histogram || len(selected) > 0:
			return c, false, "", fmt.Errorf("%s tells codes apart that are not kept apart", of)
		default:
			*n = 0
		}
	}
	return c, call.Func.Name != "increase", selector.Name, nil
}

// codeLabel is the name of a label whose value is a status code or its class.
var codeLabel = regexp.MustCompile(`(^|_)(code|status|code_class)$`)

// selects reports whether requests with a code are selected. All labels that are not about codes are taken to select
// the canary. What an argument of the template selects is not known, so it is neither all nor none.
func selects(matchers []*labels.Matcher, code string) bool {
	return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool {
		switch {
		case !codeLabel.MatchString(m.Name):
			return false
		case strings.Contains(m.Value, someArgument):
			return code[1:] == "00"
		case strings.HasSuffix(m.Name, "_class"):
			return !m.Matches(code[:1] + "xx")
		}
		return !m.Matches(code)
	})
}

// SPDX-License-Identifier: Apache-2.0

package promquery

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

// The parts that a sum of counters is made of. The result of anything else is no count since the counters began, or may
// become less although no counter did, or switches from one count to another.
var (
	functions = []string{
		"last_over_time", "max_over_time", "vector", "scalar", "label_replace", "label_join", "floor", "ceil", "round",
	}
	aggregations = []parser.ItemType{parser.SUM, parser.MAX, parser.MIN}
	operators    = []parser.ItemType{parser.ADD, parser.SUB, parser.MUL, parser.DIV, parser.LOR}
)

// checkParts looks for functions, operators and selectors that cannot be right, and returns the first one.
func checkParts(expr parser.Expr) error {
	ofRevision := false
	var wrong error
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if wrong == nil {
			wrong = checkPart(n)
		}
		if part, ok := n.(*parser.VectorSelector); ok {
			ofRevision = ofRevision || equals(part, sample.Revision)
		}
		return nil
	})
	if wrong == nil && !ofRevision {
		wrong = errors.New(
			"nothing in it is limited to one Revision, so the canary and its baseline would be the same; " +
				"add a label matcher such as revision={{revision}}",
		)
	}
	return wrong
}

func checkPart(n parser.Node) error {
	switch part := n.(type) {
	case *parser.Call:
		if !slices.Contains(functions, part.Func.Name) {
			return fmt.Errorf(
				"%s() is not allowed; return the counters themselves, as sum(…) does: the differences since the run began are taken for you",
				part.Func.Name,
			)
		}
	case *parser.AggregateExpr:
		if !slices.Contains(aggregations, part.Op) {
			return fmt.Errorf("%s(…) is not allowed: it counts no requests; add the counters, as sum(…) does", part.Op)
		}
	case *parser.BinaryExpr:
		return checkOperator(part)
	case *parser.VectorSelector:
		if !equals(part, sample.Namespace) {
			return fmt.Errorf(
				"the series %s are not limited to one namespace; add a label matcher such as namespace={{namespace}}", nameOf(part),
			)
		}
	}
	return nil
}

func checkOperator(b *parser.BinaryExpr) error {
	switch {
	case !slices.Contains(operators, b.Op):
		return fmt.Errorf("the operator %s is not allowed: its result is no count, or not always the same one", b.Op)
	case b.Op == parser.DIV && !isNumber(b.RHS):
		return errors.New("a count may be divided by a number only: a ratio is no count")
	case b.Op == parser.LOR && !isZero(b.RHS):
		return fmt.Errorf(
			"or %s is not allowed: it would be another count wherever the first one is missing; "+
				"only a zero may follow, as in or 0 * sum(requests_total{…}), which is missing if nothing was counted",
			shortened(b.RHS.String()),
		)
	}
	return nil
}

// isZero reports whether an expression is 0 times some count: it is 0 if there is one, and missing otherwise.
func isZero(e parser.Expr) bool {
	b, ok := inner(e).(*parser.BinaryExpr)
	return ok && b.Op == parser.MUL && (isNull(b.LHS) || isNull(b.RHS))
}

func isNull(e parser.Expr) bool {
	n, ok := inner(e).(*parser.NumberLiteral)
	return ok && n.Val == 0
}

func isNumber(e parser.Expr) bool {
	_, ok := inner(e).(*parser.NumberLiteral)
	return ok
}

// inner returns what is in parentheses.
func inner(e parser.Expr) parser.Expr {
	for {
		p, ok := e.(*parser.ParenExpr)
		if !ok {
			return e
		}
		e = p.Expr
	}
}

// mostShown limits how much of an expression a message repeats.
const mostShown = 60

func shortened(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > mostShown {
		return string(r[:mostShown]) + "…"
	}
	return text
}

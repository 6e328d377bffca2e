// SPDX-License-Identifier: Apache-2.0

package route

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	sql "github.com/cloudevents/sdk-go/sql/v2"
	cesqlerrors "github.com/cloudevents/sdk-go/sql/v2/errors"
	"github.com/cloudevents/sdk-go/sql/v2/parser"
	"github.com/cloudevents/sdk-go/sql/v2/runtime"
	"github.com/cloudevents/sdk-go/v2/event"
)

// expression is a filter in CloudEvents SQL (CESQL), version 1.0.
type expression struct {
	text   string
	parsed sql.Expression
}

// Passes implements Filter. Reading a missing attribute is an error by which "the event
// MUST NOT pass the filter" (sections 1.2 and 3.2). Any other error is a mistake in the
// expression, and leaves the result unknown.
func (e *expression) Passes(ev event.Event) (bool, error) {
	value, err := e.evaluate(ev)
	if cesqlerrors.IsMissingAttributeError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("the CESQL expression %s cannot be evaluated for an event of type %s: %w%s",
			quoted(e.text), ev.Type(), err, e.hint(ev))
	}
	return value, nil
}

var errNoBoolean = errors.New("a CESQL expression must evaluate to true or false")

func (e *expression) evaluate(ev event.Event) (value bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			value, err = false, fmt.Errorf("it panics: %v", p)
		}
	}()
	got, err := e.parsed.Evaluate(ev)
	if err != nil {
		return false, err
	}
	value, ok := got.(bool)
	if !ok {
		return false, fmt.Errorf("%w; this one evaluates to %v", errNoBoolean, got)
	}
	return value, nil
}

// newExpression parses an expression, and rejects one that fails for every event.
func newExpression(text string) (Filter, error) {
	switch {
	case len(text) > maxExpression:
		return nil, fmt.Errorf("the CESQL expression has %d bytes; it must not have more than %d", len(text), maxExpression)
	case nesting(text) > maxNesting:
		return nil, fmt.Errorf("the parentheses of the CESQL expression are nested more than %d levels deep; use fewer",
			maxNesting)
	}
	parsed, err := parse(text)
	if err != nil {
		return nil, err
	}
	e := &expression{text: text, parsed: parsed}
	_, err = e.evaluate(probe())
	switch {
	case errors.Is(err, errNoBoolean):
		return nil, err
	case cesqlerrors.IsMissingFunctionError(err):
		return nil, fmt.Errorf("the CESQL expression calls a function that CESQL does not have: %w", err)
	}
	return e, checkFunctions(text)
}

// nesting returns how deep parentheses are nested.
func nesting(expression string) int {
	deepest, open := 0, 0
	for _, c := range expression {
		switch c {
		case '(':
			open++
			deepest = max(deepest, open)
		case ')':
			open--
		}
	}
	return deepest
}

// parse parses an expression. The CESQL parser panics on an incomplete one, such as
// "type LIKE".
func parse(expression string) (e sql.Expression, err error) {
	defer func() {
		if recover() != nil {
			e, err = nil, fmt.Errorf("the CESQL expression %q is incomplete, or contains something that is not valid "+
				"there", expression)
		}
	}()
	if e, err = parser.Parse(expression); err != nil {
		return nil, fmt.Errorf("reading the CESQL expression: %w", err)
	}
	return e, nil
}

// checkFunctions rejects unknown functions. The probe may not reach a call that an event
// reaches, such as one behind an AND.
func checkFunctions(text string) error {
	for _, called := range calls.FindAllStringSubmatch(literals.ReplaceAllString(text, "''"), -1) {
		if name := strings.ToUpper(called[1]); !slices.Contains(operators, name) && !known(name) {
			return fmt.Errorf("the CESQL expression calls %s, a function that CESQL does not have", name)
		}
	}
	return nil
}

// literal matches a string with its escapes (CESQL specification, section 2.4).
const literal = `'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"`

var (
	literals = regexp.MustCompile(literal)
	calls    = regexp.MustCompile(`([A-Za-z_]+)\s*\(`)
	// operators may stand before a parenthesis.
	operators = []string{"AND", "OR", "XOR", "NOT", "IN", "LIKE", "EXISTS"}
)

// maxArguments is more than any CESQL function requires.
const maxArguments = 4

func known(function string) bool {
	for n := range maxArguments + 1 {
		if runtime.ResolveFunction(function, n) != nil {
			return true
		}
	}
	return false
}

// probe returns an event to try an expression on.
func probe() event.Event {
	ev := event.New()
	ev.SetID("probe")
	ev.SetSource("https://example.com")
	ev.SetType("dev.cdevents.service.deployed.0.3.0")
	ev.SetSubject("service/default/probe")
	return ev
}

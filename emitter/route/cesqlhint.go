// SPDX-License-Identifier: Apache-2.0

package route

import (
	"fmt"
	"regexp"
	"strings"

	cesqlerrors "github.com/cloudevents/sdk-go/sql/v2/errors"
	"github.com/cloudevents/sdk-go/v2/event"
)

// NOT binds more tightly than comparisons, LIKE and IN (CESQL, section 3.6): NOT type = 'x'
// means (NOT type) = 'x', and no type is true or false.
const (
	call    = `[A-Za-z_]+\s*\((?:[^()'"]|` + literal + `)*\)`
	operand = `(?:` + call + `|` + literal + `|[A-Za-z0-9]+)`
	like    = `(?:NOT\s+)?LIKE\s*(?:` + literal + `)`
	in      = `(?:NOT\s+)?IN\s*\((?:[^()'"]|` + literal + `)*\)`
)

// negated matches the intended operand of a NOT, in its group, and literals, which have no group.
var negated = regexp.MustCompile(`(?is)` + literal +
	`|\bNOT\s+(` + operand + `\s*(?:(?:!=|<>|<=|>=|=|<|>)\s*` + operand + `|` + like + `|` + in + `))`)

// parenthesised returns the expression with parentheses after each NOT.
func parenthesised(text string) string {
	var b strings.Builder
	from := 0
	for _, at := range negated.FindAllStringSubmatchIndex(text, -1) {
		if at[2] < 0 {
			continue
		}
		b.WriteString(text[from:at[0]] + "NOT (" + text[at[2]:at[3]] + ")")
		from = at[1]
	}
	return b.String() + text[from:]
}

// hint suggests the intended form, if it can be evaluated.
func (e *expression) hint(ev event.Event) string {
	meant := parenthesised(e.text)
	if meant == e.text || len(meant) > maxExpression {
		return ""
	}
	parsed, err := parse(meant)
	if err != nil {
		return ""
	}
	_, err = (&expression{text: meant, parsed: parsed}).evaluate(ev)
	if err != nil && !cesqlerrors.IsMissingAttributeError(err) {
		return ""
	}
	return fmt.Sprintf("; NOT applies only to the operand directly after it: write %s", meant)
}

// quoted formats an expression for a message.
func quoted(text string) string {
	const enough = 200
	if len(text) > enough {
		return fmt.Sprintf("%.200q…", text)
	}
	return fmt.Sprintf("%q", text)
}

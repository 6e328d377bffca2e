// SPDX-License-Identifier: Apache-2.0

// Package promquery asks Prometheus what an operator lets gates ask: how many requests a Revision had, and how many of
// them were bad.
//
// Its invariants:
//   - Only the operator writes queries. What is filled in are the names of one Revision, quoted as PromQL strings.
//   - An answer that is not exactly two counts is no answer, and says why.
//   - Credentials go to the operator's Prometheus only, over TLS, and never along a redirect.
package promquery

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// mostText limits one expression, because it becomes part of a URL.
const mostText = 4096

// Template is a query with placeholders. Both expressions must return one number that only grows.
type Template struct {
	// Total counts requests.
	Total string `json:"total"`
	// Bad counts those of them that are bad.
	Bad string `json:"bad"`
}

// Subject is the Revision that a query is about.
type Subject struct{ Namespace, Service, Revision string }

// placeholder matches what is filled in.
var placeholder = regexp.MustCompile(`\{\{\s*([^{}]*?)\s*\}\}`)

// quoted matches a placeholder in quotes.
var quoted = regexp.MustCompile("[\"'`]" + placeholder.String())

// names of the placeholders.
var names = []string{"namespace", "service", "revision"}

// sample is filled in to check a template. No real object has such names.
var sample = Subject{Namespace: "Sample namespace", Service: "Sample service", Revision: "Sample revision"}

// Parse reads the query with that name, and says what is wrong with it, where, and what would be right.
func Parse(name, text string) (Template, error) {
	var t Template
	if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
		return t, fmt.Errorf("query.%s: %q is not a valid name: %s", name, name, strings.Join(wrong, "; "))
	}
	if err := yaml.UnmarshalStrict([]byte(text), &t); err != nil {
		return t, fmt.Errorf("query.%s must have the fields total and bad, each with an expression: %w", name, err)
	}
	var errs []error
	for _, e := range []struct{ field, text string }{{"total", t.Total}, {"bad", t.Bad}} {
		if err := check(e.text); err != nil {
			errs = append(errs, fmt.Errorf("query.%s: %s: %w", name, e.field, err))
		}
	}
	return t, errors.Join(errs...)
}

// check returns what is wrong with one expression.
func check(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return errors.New(
			"it is missing; write an expression such as sum(requests_total{namespace={{namespace}}, revision={{revision}}})",
		)
	case len(text) > mostText:
		return fmt.Errorf("it has %d characters; at most %d are allowed", len(text), mostText)
	}
	for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(names, m[1]) {
			return fmt.Errorf("%s is not known; the placeholders are {{namespace}}, {{service}} and {{revision}}", m[0])
		}
	}
	if quoted.MatchString(text) {
		return errors.New(
			"write placeholders without quotes, as in namespace={{namespace}}: they are filled in as quoted strings",
		)
	}
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(fill(text, sample))
	if err != nil {
		return fmt.Errorf("it is not valid PromQL: %w", err)
	}
	if kind := expr.Type(); kind != parser.ValueTypeVector && kind != parser.ValueTypeScalar {
		return fmt.Errorf("it returns a %s; it must return one number, as sum(…) does", parser.DocumentedType(kind))
	}
	return checkParts(expr)
}

func nameOf(s *parser.VectorSelector) string {
	if s.Name != "" {
		return s.Name
	}
	return "without a name"
}

// equals reports whether a selector has a matcher that requires a value.
func equals(s *parser.VectorSelector, value string) bool {
	return slices.ContainsFunc(
		s.LabelMatchers,
		func(m *labels.Matcher) bool { return m.Type == labels.MatchEqual && m.Value == value },
	)
}

// Fill returns both expressions about one Revision.
func (t Template) Fill(s Subject) (total, bad string) { return fill(t.Total, s), fill(t.Bad, s) }

func fill(text string, s Subject) string {
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		switch placeholder.FindStringSubmatch(found)[1] {
		case "namespace":
			return strconv.Quote(s.Namespace)
		case "service":
			return strconv.Quote(s.Service)
		case "revision":
			return strconv.Quote(s.Revision)
		}
		return found
	})
}

// Version changes when the query does: what two versions count cannot be compared.
func (t Template) Version() string {
	sum := sha256.Sum256([]byte(t.Total + "\x00" + t.Bad))
	return hex.EncodeToString(sum[:8])
}

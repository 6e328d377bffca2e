// SPDX-License-Identifier: Apache-2.0

// Package valid says what is wrong with a source by itself: for the webhook, the controller, and those who check a
// manifest.
//
// Its invariant: it looks at nothing but the source.
package valid

import (
	"errors"
	"regexp"
	"strings"

	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/tolerant"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

// Check returns everything that is invalid in a source by itself, without looking at
// other objects; nil if it is valid. The URIs of its sinks may have the given schemes.
func Check(s *v1alpha1.CDEventSource, system string, schemes transport.Schemes) (errs *apis.FieldError) {
	all := specProblems(s, system)
	all = append(all, sinkProblems(s, SinkField, &s.Spec.Sink, schemes)...)
	if s.Spec.Delivery != nil && s.Spec.Delivery.DeadLetterSink != nil {
		all = append(all, sinkProblems(s, LetterField, s.Spec.Delivery.DeadLetterSink, schemes)...)
	}
	for _, p := range all {
		errs = errs.Also(&apis.FieldError{Message: "invalid value", Paths: []string{p.field()}, Details: p.Message})
	}
	return errs
}

// The fields of a source that hold destinations.
const (
	SinkField   = "spec.sink"
	LetterField = "spec.delivery.deadLetterSink"
)

// Spec returns everything that is invalid in a spec apart from its sinks, under
// the reason of the first problem.
func Spec(s *v1alpha1.CDEventSource, system string) *ProblemError {
	all := specProblems(s, system)
	if len(all) == 0 {
		return nil
	}
	messages := make([]string, 0, len(all))
	for _, p := range all {
		messages = append(messages, p.Message)
	}
	return &ProblemError{Reason: all[0].Reason, Message: strings.Join(messages, "; ")}
}

// specProblems returns the problems of a spec apart from its sinks.
func specProblems(s *v1alpha1.CDEventSource, system string) []*ProblemError {
	var all []*ProblemError
	for _, u := range s.Unread {
		in := func(field string) bool { return v1alpha1.UnreadIn([]tolerant.FieldError{u}, field) != nil }
		if in("spec") && !in(SinkField) && !in(LetterField) {
			all = append(all, &ProblemError{Reason: InvalidField, Message: u.Error()})
		}
	}
	for _, c := range []struct {
		field string
		check func(*v1alpha1.CDEventSource, string) error
	}{
		{"spec.namespaceSelector", checkNamespaceSelector},
		{"spec.selector", checkSelectors},
		{"spec.filters", checkFilters},
		{"spec.delivery", checkDelivery},
		{"spec.auth", checkAuth},
		{"spec.cdevents", checkVersion},
		{"spec.environment", checkEnvironment},
		{"spec.ceOverrides", checkOverrides},
		{"spec.ceOverrides", checkForm},
	} {
		// Do not report on the remains of a field that could not be parsed. Only the
		// fields of delivery are independent of each other.
		if c.field == "spec.delivery" || v1alpha1.UnreadIn(s.Unread, c.field) == nil {
			all = append(all, problemsIn(c.check(s, system))...)
		}
	}
	return all
}

// sinkProblems returns the problems of a destination, without resolving it.
func sinkProblems(
	s *v1alpha1.CDEventSource, field string, d *duckv1.Destination, schemes transport.Schemes,
) []*ProblemError {
	if err := Readable(s, field); err != nil {
		return problemsIn(err)
	}
	return problemsIn(Destination(field, s.Namespace, d, schemes))
}

// Readable reports a field that could not be parsed.
func Readable(s *v1alpha1.CDEventSource, field string) error {
	if u := v1alpha1.UnreadIn(s.Unread, field); u != nil {
		return &ProblemError{Reason: InvalidField, Message: u.Error()}
	}
	return nil
}

// each returns the errors in a joined error.
func each(err error) []error {
	if err == nil {
		return nil
	}
	// Errors wrapped deeper are part of a message.
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// problemsIn returns the problems among joined errors.
func problemsIn(err error) []*ProblemError {
	var out []*ProblemError
	for _, e := range each(err) {
		var p *ProblemError
		if errors.As(e, &p) {
			out = append(out, p)
		}
	}
	return out
}

// path matches the field that a problem's message begins with.
var path = regexp.MustCompile(`^spec(\.[A-Za-z]+|\[\d+\])*`)

// field returns the field that the problem is about.
func (p *ProblemError) field() string {
	if at := path.FindString(p.Message); at != "" {
		return at
	}
	return "spec"
}

package source

import (
	"errors"
	"regexp"
	"strings"

	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/tolerant"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Check says all that cannot be obeyed in a source, whatever else there is in the
// cluster; nil where nothing is wrong.
func Check(s *v1alpha1.CDEventSource, system string) (errs *apis.FieldError) {
	all := specProblems(s, system)
	all = append(all, sinkProblems(s, sinkField, &s.Spec.Sink)...)
	if s.Spec.Delivery != nil && s.Spec.Delivery.DeadLetterSink != nil {
		all = append(all, sinkProblems(s, letterField, s.Spec.Delivery.DeadLetterSink)...)
	}
	for _, p := range all {
		errs = errs.Also(&apis.FieldError{Message: "invalid value", Paths: []string{p.field()}, Details: p.message})
	}
	return errs
}

const (
	sinkField   = "spec.sink"
	letterField = "spec.delivery.deadLetterSink"
)

// problems says what in a spec, apart from its sinks, cannot be obeyed: all of
// it, under the reason of the first.
func problems(s *v1alpha1.CDEventSource, system string) *problem {
	all := specProblems(s, system)
	if len(all) == 0 {
		return nil
	}
	messages := make([]string, 0, len(all))
	for _, p := range all {
		messages = append(messages, p.message)
	}
	return &problem{reason: all[0].reason, message: strings.Join(messages, "; ")}
}

// specProblems are those of a spec, apart from its sinks.
func specProblems(s *v1alpha1.CDEventSource, system string) []*problem {
	var all []*problem
	for _, u := range s.Unread {
		in := func(field string) bool { return v1alpha1.UnreadIn([]tolerant.FieldError{u}, field) != nil }
		if in("spec") && !in(sinkField) && !in(letterField) {
			all = append(all, &problem{reason: "InvalidField", message: u.Error()})
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
		{"spec.cdevents", checkVersion},
		{"spec.environment", checkEnvironment},
		{"spec.ceOverrides", checkOverrides},
		{"spec.ceOverrides", checkForm},
	} {
		// What is left of a field that could not be read as a whole says nothing, but in
		// delivery, whose fields stand each for itself.
		if c.field == "spec.delivery" || v1alpha1.UnreadIn(s.Unread, c.field) == nil {
			all = append(all, problemsIn(c.check(s, system))...)
		}
	}
	return all
}

// sinkProblems are those of a destination, whatever it leads to.
func sinkProblems(s *v1alpha1.CDEventSource, field string, d *duckv1.Destination) []*problem {
	if err := checkReadable(s, field); err != nil {
		return problemsIn(err)
	}
	return problemsIn(checkDestination(field, s.Namespace, d))
}

// checkReadable says whether a field could be read as a whole.
func checkReadable(s *v1alpha1.CDEventSource, field string) error {
	if u := v1alpha1.UnreadIn(s.Unread, field); u != nil {
		return &problem{reason: "InvalidField", message: u.Error()}
	}
	return nil
}

// each returns the errors that were joined.
func each(err error) []error {
	if err == nil {
		return nil
	}
	// What is wrapped further inside belongs to the message around it.
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// problemsIn are those among joined errors.
func problemsIn(err error) []*problem {
	var out []*problem
	for _, e := range each(err) {
		var p *problem
		if errors.As(e, &p) {
			out = append(out, p)
		}
	}
	return out
}

// path is what the message of a problem begins with, where it is about a field.
var path = regexp.MustCompile(`^spec(\.[A-Za-z]+|\[\d+\])*`)

// field that the problem is about.
func (p *problem) field() string {
	if at := path.FindString(p.message); at != "" {
		return at
	}
	return "spec"
}

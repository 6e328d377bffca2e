package cdevents

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/cdevents/sdk-go/pkg/api"
	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// facts are the values of one event, before they are put into the form of a
// version of the specification.
type facts struct {
	typ         api.CDEventType
	id          string
	source      string
	time        time.Time
	chain       string
	links       api.EmbeddedLinksArray
	subject     string
	environment *api.Reference
	artifact    string
	// description and service are those of an incident.
	description string
	service     *api.Reference
	// outcome, reason, testCase and testCaseName are those of a verdict.
	outcome, reason        string
	testCase, testCaseName string
	data                   api.CDEventCustomData
}

// render1 is version 1 of the rendering. Its bytes never change.
func render1(
	profile v1alpha1.Profile,
	subject v1alpha1.CDEventSubjectSpec,
	t lifecycle.Transition,
) (event.Event, error) {
	row, form, err := lookup(profile.SpecVersion, t.Type)
	if err != nil {
		return event.Event{}, fmt.Errorf("rendering transition %d of %s: %w", t.Sequence, SubjectID(subject), err)
	}
	if err := check(profile, t); err != nil {
		return event.Event{}, fmt.Errorf("rendering transition %d of %s: %w", t.Sequence, SubjectID(subject), err)
	}

	var said notes
	extensions := extensions(profile, t, &said)
	f := facts{
		typ:         form.typ,
		id:          ID(profile, subject, t.Sequence, t.Time),
		source:      profile.Source,
		time:        moment(t.Time),
		chain:       chainID(subject, t, &said),
		links:       links(profile, subject, t, &said),
		subject:     SubjectID(subject),
		environment: environment(profile.Environment, &said),
	}
	f.about(subject, t)
	// An incident need not have one, and may be about no Revision.
	if row.artifact && (t.Incident == nil || t.Revision != nil) {
		f.artifact = artifactID(subject, t.Revision, &said)
	}
	f.data = api.CDEventCustomData{
		CustomData:            customData(subject, t, said),
		CustomDataContentType: event.ApplicationJSON,
	}

	e, err := cloudEvent(f, form.build(f), extensions)
	if err != nil {
		return event.Event{}, fmt.Errorf("rendering transition %d of %s: %w", t.Sequence, f.subject, err)
	}
	return e, nil
}

// SubjectID is the subject's id: "service/<namespace>/<name>". It stays the same
// over all Revisions, because events "associated to the same subject MUST use
// the same subject id" (CDEvents spec.md, id (subject)); what changes is in
// customData.
func SubjectID(s v1alpha1.CDEventSubjectSpec) string {
	// Names in Kubernetes need no escaping. Should one ever do, then a slash in
	// it must not make two subjects one, nor a line break reach a header.
	parts := []string{url.PathEscape(strings.ToLower(s.Kind))}
	if s.Namespace != "" {
		parts = append(parts, url.PathEscape(s.Namespace))
	}
	return strings.Join(append(parts, url.PathEscape(s.Name)), "/")
}

// check finds what this program alone can have got wrong.
func check(profile v1alpha1.Profile, t lifecycle.Transition) error {
	// "An absolute URI is RECOMMENDED" (CDEvents spec.md, source (context)): it is what
	// makes an id unique beyond one cluster, so here it is required.
	if u, ok := parseURI(profile.Source); !ok || !u.IsAbs() {
		return fmt.Errorf("the event source %q must be an absolute URI, such as https://cluster.example.com", profile.Source)
	}
	if incident := t.Type == lifecycle.IncidentDetected || t.Type == lifecycle.IncidentResolved; incident != (t.Incident != nil) {
		return fmt.Errorf("transition %s must say of an incident if it is about one, and only then", t.Type)
	}
	if (t.Type == lifecycle.Judged) != (t.Verdict != nil) {
		return fmt.Errorf("transition %s must hold a verdict if it is one, and only then", t.Type)
	}
	if t.Time.IsZero() {
		return fmt.Errorf("transition %s has no time; it must be journaled before it is rendered", t.Type)
	}
	return nil
}

// moment is a time as events carry it: in UTC and of microseconds, the precision
// of the ledger, so that nothing is lost on the way through it.
func moment(t time.Time) time.Time {
	return t.UTC().Truncate(time.Microsecond)
}

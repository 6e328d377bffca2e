// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"fmt"
	"time"

	"github.com/cdevents/sdk-go/pkg/api"
	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// facts holds the values of one event, independent of the version of the specification.
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
	// description and service belong to an incident.
	description string
	service     *api.Reference
	// name and uri belong to an environment.
	name, uri string
	// outcome, reason, testCase and testCaseName belong to a verdict.
	outcome, reason        string
	testCase, testCaseName string
	data                   api.CDEventCustomData
}

func renderV1(profile v1alpha1.Profile, subject v1alpha1.CDEventSubjectSpec, t lifecycle.Transition) (Rendered, error) {
	row, form, err := lookup(profile.SpecVersion, t.Type)
	if err != nil {
		return Rendered{}, fmt.Errorf("rendering transition %d of %s: %w", t.Sequence, SubjectID(subject), err)
	}
	if err := check(profile, t); err != nil {
		return Rendered{}, fmt.Errorf("rendering transition %d of %s: %w", t.Sequence, SubjectID(subject), err)
	}

	var n notes
	id := ID(profile, subject, t.Sequence, t.Time) // before the input is prepared: it must not depend on that
	own := ownLinks(profile, subject, t.Links)
	profile, t = withoutCredentials(profile, t)
	extensions := extensions(profile, subject, t, &n)
	f := facts{
		typ:         form.typ,
		id:          id,
		source:      profile.Source,
		time:        eventTime(t.Time),
		chain:       chainID(subject, t, &n),
		links:       append(own, annotatedLinks(t, &n)...),
		subject:     SubjectID(subject),
		environment: environmentOf(profile, subject, t, &n),
	}
	f.about(subject, t)
	// For an incident the artifact is optional, and there may be no Revision.
	if row.artifact && (t.Incident == nil || t.Revision != nil) {
		f.artifact = artifactID(subject, t.Revision, &n)
	}
	data := customData(subject, t, n)
	if data.Environment != nil {
		f.name, f.uri = data.Environment.Name, data.Environment.URL
	}
	f.data = api.CDEventCustomData{CustomData: data, CustomDataContentType: event.ApplicationJSON}

	e, err := cloudEvent(f, form.build(f), extensions)
	if err != nil {
		return Rendered{}, fmt.Errorf("rendering transition %d of %s: %w", t.Sequence, f.subject, err)
	}
	return Rendered{Event: e, Incomplete: len(data.Notes) > 0}, nil
}

// check rejects what only this program can get wrong.
func check(profile v1alpha1.Profile, t lifecycle.Transition) error {
	// "An absolute URI is RECOMMENDED" (CDEvents spec.md, source (context)). It makes an id unique
	// beyond one cluster, so we require it.
	if u, ok := parseURI(profile.Source); !ok || !u.IsAbs() {
		return fmt.Errorf("the event source %q must be an absolute URI, such as https://cluster.example.com", profile.Source)
	}
	if incident := t.Type == lifecycle.IncidentDetected ||
		t.Type == lifecycle.IncidentResolved; incident != (t.Incident != nil) {
		return fmt.Errorf("transition %s must have incident details if and only if it is about an incident", t.Type)
	}
	if (t.Type == lifecycle.Judged) != (t.Verdict != nil) {
		return fmt.Errorf("transition %s must have a verdict if and only if it announces one", t.Type)
	}
	if ofEnvironment(t) != (t.Environment != nil) {
		return fmt.Errorf("transition %s must have environment details if and only if it is about an environment", t.Type)
	}
	if t.Time.IsZero() {
		return fmt.Errorf("transition %s has no time; it must be journaled before it is rendered", t.Type)
	}
	return nil
}

// eventTime returns a time as events carry it: in UTC, with microseconds, which is the precision of
// the ledger.
func eventTime(t time.Time) time.Time {
	return t.UTC().Truncate(time.Microsecond)
}

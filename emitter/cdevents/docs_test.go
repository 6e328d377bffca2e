// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

const (
	page         = "../../docs/events.md"
	examplesPage = "../../docs/event-examples.md"
	annotations  = "../../docs/annotations.md"
)

// binaryHeaders returns the headers of the request in binary mode, as http_test.go receives them.
func binaryHeaders(e event.Event) []string {
	headers := []string{
		"Ce-Specversion: " + e.SpecVersion(),
		"Ce-Id: " + e.ID(),
		"Ce-Source: " + e.Source(),
		"Ce-Type: " + e.Type(),
		"Ce-Subject: " + e.Subject(),
		"Ce-Time: " + e.Time().Format("2006-01-02T15:04:05.999999Z07:00"),
	}
	for _, name := range slices.Sorted(maps.Keys(e.Extensions())) {
		headers = append(headers, fmt.Sprintf("Ce-%s%s: %v", strings.ToUpper(name[:1]), name[1:], e.Extensions()[name]))
	}
	return append(headers, "Content-Type: "+e.DataContentType())
}

// The page of examples is written by -update: the types in each version, a request, and an event of each type.
func TestExamplesMatchTheCode(t *testing.T) {
	var b strings.Builder
	b.WriteString(examplesHead + typesTable(t) + examplesForms + request(t))
	for _, tr := range story() {
		b.WriteString("\n## `" + unversioned(t, tr) + "`\n\n")
		if uncaptured[tr.Type] {
			b.WriteString("Rendered by the tests.\n\n")
		}
		b.WriteString("```json\n" + example(t, tr) + "```\n")
	}
	compare(t, examplesPage, b.String())
}

const examplesHead = `# Event examples

<!-- Written by "go test ./emitter/cdevents -update". Do not edit. -->

One event of each type, in CDEvents 0.5. [Events](events.md) says when each is sent, and what its fields mean. A receiver got them in runs of
the end-to-end tests; only names of the cluster were changed. Where the tests render an event, its section says so.

There are three stories. A Service is created and published; a second Revision is tried with a tenth of the traffic, takes over and is rolled
back; the Service is deleted. Another Service has a stateful cluster. A Cluster of Cluster API is created, upgraded to another version of
Kubernetes, and deleted. The incident and the environment of Crossplane are from other runs.

## Types

`

const examplesForms = `
Events of 0.4 have "context.version" instead of "context.specversion". They also have "subject.type": "service", "incident", "environment" or
"testCaseRun", or for a custom event the part of its type before the predicate, such as "knative-revision".

## A request

In binary mode, the attributes are headers, and the CDEvent is the body:

`

// unversioned returns the type of a transition's events in CDEvents 0.5, without its version.
func unversioned(t *testing.T, tr lifecycle.Transition) string {
	t.Helper()
	typ, err := Type(Version05, tr.Type)
	if err != nil {
		t.Fatal(err)
	}
	return typ[:len(typ)-len(".0.3.0")]
}

// The pages that people write describe each type, reason and annotation.
func TestPagesNameWhatTheCodeHas(t *testing.T) {
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, name := range CarriedAnnotations() {
		if !strings.Contains(read(annotations), "`"+name+"`") {
			t.Errorf("%s does not name annotation %s", annotations, name)
		}
	}
	for _, tr := range story() {
		if typ := unversioned(t, tr); !strings.Contains(read(page), "\n### `"+typ+"`\n") {
			t.Errorf("%s has no section on %s", page, typ)
		}
	}
	for _, reason := range []string{
		lifecycle.ReasonTraffic, lifecycle.ReasonConfiguration, lifecycle.ReasonReapplied, lifecycle.ReasonReverted,
		lifecycle.ReasonWithdrawn, lifecycle.ReasonReplaced, lifecycle.ReasonRemoved, lifecycle.ReasonUndeclared,
		lifecycle.ReasonReplay, lifecycle.ReasonEnvironmentDeleted,
	} {
		if !strings.Contains(read(page), "`"+reason+"`") {
			t.Errorf("%s does not explain reason %s", page, reason)
		}
	}
}

func typesTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| CDEvents 0.5 | CDEvents 0.4 |\n|---|---|\n")
	for _, tr := range story() {
		v05, err := Type(Version05, tr.Type)
		if err != nil {
			t.Fatal(err)
		}
		v04, err := Type(Version04, tr.Type)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "| `%s` | `%s` |\n", v05, v04)
	}
	return b.String()
}

// request returns one event as sent over the wire.
func request(t *testing.T) string {
	t.Helper()
	e := render(t, profile(Version05), transitionOf(t, lifecycle.Upgraded))
	return "```http\nPOST / HTTP/1.1\n" + strings.Join(binaryHeaders(e), "\n") + "\n\n{\"context\": …\n```\n"
}

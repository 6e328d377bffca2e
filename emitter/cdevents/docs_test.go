// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

const page = "../../docs/events.md"

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

// block is the text between two markers of the page.
var block = regexp.MustCompile(`(?s)<!-- generated: ([^ ]+) -->\n.*?<!-- end -->`)

// The page matches the code: -update writes its tables and examples, and it must have an example of
// each type and name each annotation.
func TestPageMatchesTheCode(t *testing.T) {
	blocks := map[string]string{"types": typesTable(t), "request": request(t)}
	for _, tr := range story() {
		blocks[string(tr.Type)] = "```json\n" + example(t, tr) + "```\n"
	}

	have, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	want := block.ReplaceAllStringFunc(string(have), func(old string) string {
		name := block.FindStringSubmatch(old)[1]
		text, ok := blocks[name]
		if !ok {
			t.Errorf("the page has an unknown block %q", name)
			return old
		}
		used[name] = true
		return "<!-- generated: " + name + " -->\n" + text + "<!-- end -->"
	})
	compare(t, page, want)

	for name := range blocks {
		if !used[name] {
			t.Errorf("the page has no block %q", name)
		}
	}
	for _, name := range CarriedAnnotations() {
		if !strings.Contains(want, "`"+name+"`") {
			t.Errorf("the page does not name annotation %s", name)
		}
	}
	for _, tr := range story() {
		typ, err := Type(Version05, tr.Type)
		if err != nil {
			t.Fatal(err)
		}
		if unversioned := typ[:len(typ)-len(".0.3.0")]; !strings.Contains(want, "\n### `"+unversioned+"`\n") {
			t.Errorf("the page has no section on %s", unversioned)
		}
	}
	for _, reason := range []string{
		lifecycle.ReasonTraffic, lifecycle.ReasonConfiguration, lifecycle.ReasonReapplied, lifecycle.ReasonWithdrawn, lifecycle.ReasonReplaced, lifecycle.ReasonRemoved, lifecycle.ReasonUndeclared, lifecycle.ReasonReplay, lifecycle.ReasonEnvironmentDeleted,
	} {
		if !strings.Contains(want, "`"+reason+"`") {
			t.Errorf("the page does not explain reason %s", reason)
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

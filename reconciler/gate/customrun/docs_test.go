// SPDX-License-Identifier: Apache-2.0

package customrun

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// The page lists every param and every result, and no other.
func TestPageListsParamsAndResults(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../docs/tekton.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, found := strings.Cut(string(raw), "\n## Params and results\n")
	if !found {
		t.Fatal("the page has no section about params and results")
	}
	page, _, _ = strings.Cut(page, "\n## ")
	var names []string
	for _, r := range results(&v1alpha1.GateRun{}) {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	if got, want := listed(t, page, "param"), slices.Sorted(maps.Keys(params)); !slices.Equal(got, want) {
		t.Errorf("the page lists the params %q; the code has %q", got, want)
	}
	if got := listed(t, page, "result"); !slices.Equal(got, names) {
		t.Errorf("the page lists the results %q; the code has %q", got, names)
	}
}

// listed returns the names in the first column of the table with a heading, in order.
func listed(t *testing.T, page, heading string) []string {
	t.Helper()
	_, table, found := strings.Cut(page, "| "+heading+" | ")
	if !found {
		t.Fatalf("there is no table of %ss", heading)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	var names []string
	for line := range strings.Lines(table) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		for _, name := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(first, -1) {
			names = append(names, name[1])
		}
	}
	slices.Sort(names)
	return names
}

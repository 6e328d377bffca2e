// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// What is prepared for the registries of CDEvents names the events that are sent: every custom one, and no other.
func TestRegistryEntries(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/registry/README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `(\\S+)` \\| \\[\\S+\\]\\((\\S+)\\) \\| \\S.* \\|$").FindAllStringSubmatch(string(raw), -1)
	var got, want []string
	for _, row := range rows {
		got = append(got, row[1])
		// The section of the page that specifies it; the tests of docs follow the link.
		if section := "/docs/events.md#" + strings.ReplaceAll(row[1], ".", ""); !strings.HasSuffix(row[2], section) {
			t.Errorf("the row of %s leads to %s, want %s", row[1], row[2], section)
		}
	}
	for _, typ := range Types("") {
		if name := typ[:len(typ)-len(".0.1.0")]; strings.HasPrefix(typ, "dev.cdeventsx.") {
			want = append(want, name)
		}
	}
	slices.Sort(got)
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("the rows are %q, want %q", got, want)
	}

	raw, err = os.ReadFile("../../docs/registry/providers.json")
	if err != nil {
		t.Fatal(err)
	}
	var providers struct {
		Enum []string `json:"enum"`
	}
	if err := json.Unmarshal(raw, &providers); err != nil {
		t.Fatal(err)
	}
	if want := []string{lifecycle.ProviderClusterAPI, lifecycle.ProviderCrossplane, "knative"}; !slices.Equal(providers.Enum, want) {
		t.Errorf("the providers are %q, want %q", providers.Enum, want)
	}
	for _, p := range providers.Enum {
		if !regexp.MustCompile(`^[a-z][a-z0-9-]*$`).MatchString(p) {
			t.Errorf("provider %q is not one that the draft accepts", p)
		}
	}
}

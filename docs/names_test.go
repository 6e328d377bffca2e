// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/cli/lint"
)

// Blocks that show a part of an object, and what they are a part of.
const (
	partOfService = "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata:\n  name: cart\n"
	partOfSource  = "apiVersion: knative-cdevents.dev/v1alpha1\nkind: CDEventSource\nmetadata:\n  name: releases\n"
	partOfGate    = "apiVersion: knative-cdevents.dev/v1alpha1\nkind: CanaryGate\nmetadata:\n  name: cart\n"
)

// Manifests are those that the API server would accept.
func TestManifests(t *testing.T) {
	t.Parallel()
	checked := 0
	for from, p := range pages(t) {
		heredocs := regexp.MustCompile(`(?s)<<-?'?(?:EOF|END)'?\n(.*?)\n(?:EOF|END)\n`).FindAllStringSubmatch(p.commands, -1)
		for _, h := range heredocs {
			p.manifests = append(p.manifests, h[1])
		}
		for _, m := range p.manifests {
			switch {
			case !strings.HasPrefix(m, "spec:\n"):
			case strings.Contains(m, "\n  template:\n"):
				m = partOfService + m
			case strings.Contains(m, "\n  sink:"):
				m = partOfSource + m
			default:
				m = partOfGate + m
			}
			l := lint.Linter{System: "knative-cdevents", Namespace: "shop"}
			l.Read(from, []byte(m))
			checked += l.Checked
			for _, wrong := range l.Problems {
				t.Errorf("%s: %s %s: %s", from, wrong.Object, wrong.Field, wrong.What)
			}
		}
	}
	if checked < 25 {
		t.Errorf("checked only %d objects; are the documents read as they are written?", checked)
	}
}

// Types of events, labels and annotations are those that exist. Other tests compare the two pages that list them with
// the code.
func TestNames(t *testing.T) {
	t.Parallel()
	all := pages(t)
	types := regexp.MustCompile(`dev\.cdeventsx?\.[a-z-]+\.[a-z-]+`)
	events := types.FindAllString(all["docs/event-examples.md"].text, -1)
	events = append(events, "dev.cdeventsx.knative-source.tested") // what test-event sends

	var labels []string
	prefix := ""
	for _, name := range regexp.MustCompile("`(…|(?:[a-z]+\\.)?knative-cdevents\\.dev)/([a-z][a-z-]*)`").FindAllStringSubmatch(all["docs/api.md"].text, -1) {
		if name[1] != "…" {
			prefix = name[1]
		}
		labels = append(labels, prefix+"/"+name[2])
	}
	labels = append(labels, "placement.knative-cdevents.dev/token") // a file
	label := regexp.MustCompile(`\b(?:[a-z]+\.)?knative-cdevents\.dev/[a-z][a-z-]*[a-z]`)
	version := regexp.MustCompile(`/v[0-9][a-z0-9]*`)
	if len(events) < 20 || len(labels) < 40 {
		t.Fatalf("found only %d events and %d labels", len(events), len(labels))
	}

	for from, p := range all {
		for _, name := range types.FindAllString(p.text, -1) {
			if !slices.Contains(events, name) {
				t.Errorf("%s names the event %s, which does not exist", from, name)
			}
		}
		for _, name := range label.FindAllString(version.ReplaceAllString(p.text, "/"), -1) {
			if !slices.Contains(labels, name) {
				t.Errorf("%s names %s, which docs/api.md does not list", from, name)
			}
		}
	}
}

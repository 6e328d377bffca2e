// SPDX-License-Identifier: Apache-2.0

package config

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Names as they are in manifests and Go, and names that Go puts together from a prefix.
var (
	wholeName = regexp.MustCompile(`\b((?:[a-z]+\.)?knative-cdevents\.dev)/([a-z][a-z0-9-]*)`)
	partName  = regexp.MustCompile(`\b(GroupName|StatefulPrefix|AnnotationPrefix) *\+ *"/?([a-z][a-z-]*)"`)
	prefixes  = map[string]string{
		"GroupName": "knative-cdevents.dev", "StatefulPrefix": "stateful.knative-cdevents.dev", "AnnotationPrefix": "cdevents.knative-cdevents.dev",
	}
	// noLabels are versions, names of meters, and mounted tokens.
	noLabels = []string{
		"knative-cdevents.dev/v1alpha1", "cli.knative-cdevents.dev/v1alpha1", "placement.knative-cdevents.dev/token", "knative-cdevents.dev/core",
		"knative-cdevents.dev/emitter", "knative-cdevents.dev/stateful", "knative-cdevents.dev/webhook", "knative-cdevents.dev/v1",
	}
)

// The page of the API lists every label and annotation, and no other.
func TestPageListsEveryLabel(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	prefix := ""
	for _, name := range regexp.MustCompile("`(…|(?:[a-z]+\\.)?knative-cdevents\\.dev)/([a-z][a-z-]*)`").FindAllStringSubmatch(string(page), -1) {
		if name[1] != "…" {
			prefix = name[1]
		}
		listed = append(listed, prefix+"/"+name[2])
	}
	used := map[string]string{}
	repository := os.DirFS("..")
	for _, root := range []string{"api", "cli", "cmd", "config", "emitter", "reconciler"} {
		err := fs.WalkDir(repository, root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".yaml") {
				return err
			}
			raw, err := fs.ReadFile(repository, path)
			for _, name := range wholeName.FindAllStringSubmatch(string(raw), -1) {
				used[name[1]+"/"+name[2]] = path
			}
			for _, name := range partName.FindAllStringSubmatch(string(raw), -1) {
				used[prefixes[name[1]]+"/"+name[2]] = path
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, path := range used {
		if !slices.Contains(noLabels, name) && !slices.Contains(listed, name) {
			t.Errorf("docs/api.md does not list %s, which is in %s", name, path)
		}
	}
	for _, name := range listed {
		if used[name] == "" {
			t.Errorf("docs/api.md lists %s, which nothing uses", name)
		}
	}
	// The same name in two domains confuses, and so does one that is both a label and an annotation.
	before, annotations, _ := strings.Cut(string(page), "\n### Annotations\n")
	_, labels, found := strings.Cut(before, "\n### Labels\n")
	if !found {
		t.Fatal("the page has no table of labels before that of annotations")
	}
	for _, name := range regexp.MustCompile("/([a-z][a-z-]*)`").FindAllStringSubmatch(labels, -1) {
		if strings.Contains(annotations, "/"+name[1]+"`") {
			t.Errorf("%s is a label and an annotation", name[1])
		}
	}
	domains := map[string]string{}
	for _, name := range listed {
		domain, short, _ := strings.Cut(name, "/")
		if first, twice := domains[short]; twice && first != domain {
			t.Errorf("%s is in %s and in %s", short, first, domain)
		}
		domains[short] = domain
	}
	if len(listed) < 40 {
		t.Errorf("only %d are listed", len(listed))
	}
}

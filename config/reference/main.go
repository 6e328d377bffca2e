// SPDX-License-Identifier: Apache-2.0

// Command reference writes docs/reference.md: every field of the custom resources, from the
// CustomResourceDefinitions in config, and docs/reasons.md: every reason of their conditions, from the constants in Go.
// "make generate" runs it.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const (
	definitions = "config/300-*.yaml"
	page        = "docs/reference.md"
)

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatalf("reference: %v", err)
	}
}

func run() error {
	files, err := filepath.Glob(definitions)
	if err != nil || len(files) == 0 {
		return errors.Join(fmt.Errorf("no file matches %s: run this in the root of the repository", definitions), err)
	}
	var out bytes.Buffer
	out.WriteString(head)
	for _, name := range files {
		raw, err := os.ReadFile(name) //nolint:gosec // the files of this repository
		if err != nil {
			return fmt.Errorf("reading a definition: %w", err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		describe(&out, &crd)
	}
	if err := write(page, out.Bytes()); err != nil {
		return err
	}
	list, err := reasons(os.DirFS("."))
	if err != nil {
		return err
	}
	return write(reasonsPage, list)
}

func write(page string, text []byte) error {
	if err := os.WriteFile(page, text, 0o644); err != nil { //nolint:gosec // a world-readable page
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

const head = `# API reference

<!-- Written by "make generate" from config/300-*.yaml. Do not edit. -->

This page lists every field of the custom resources of group ` + "`knative-cdevents.dev`" + `. ` + "`kubectl explain`" + ` shows the same text, for
example ` + "`kubectl explain cdeventsource.spec.delivery`" + `.

A **duration** is written as 90s, 2m or 1h30m. Those of a CDEventSource's ` + "`delivery`" + ` can be in ISO 8601 (` + "`PT1M30S`" + `), too.
`

// describe writes the section of one resource.
func describe(out *bytes.Buffer, crd *apiextensionsv1.CustomResourceDefinition) {
	for _, v := range crd.Spec.Versions {
		names := crd.Spec.Names
		fmt.Fprintf(
			out,
			"\n## %s\n\n`%s/%s`, %s",
			names.Kind,
			crd.Spec.Group,
			v.Name,
			strings.ToLower(string(crd.Spec.Scope)),
		)
		if len(names.ShortNames) > 0 {
			fmt.Fprintf(out, ", short name `%s`", strings.Join(names.ShortNames, "`, `"))
		}
		root := v.Schema.OpenAPIV3Schema
		fmt.Fprintf(out, ".\n\n%s\n", sentence(root.Description))
		for _, part := range []string{"spec", "status"} {
			p, ok := root.Properties[part]
			if !ok {
				continue
			}
			fmt.Fprintf(out, "\n### %s.%s\n", names.Kind, part)
			if p.Description != "" {
				fmt.Fprintf(out, "\n%s\n", sentence(p.Description))
			}
			out.WriteString("\n| field | type | description |\n|---|---|---|\n")
			fields(out, "", &p)
		}
	}
}

// fields writes a row for each field below a schema, depth first.
func fields(out *bytes.Buffer, path string, s *apiextensionsv1.JSONSchemaProps) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		at := strings.TrimPrefix(path+"."+name, ".")
		text := sentence(p.Description)
		if bounds := constraints(&p, slices.Contains(s.Required, name)); bounds != "" {
			text = strings.TrimSpace(text + " " + bounds)
		}
		fmt.Fprintf(out, "| `%s` | %s | %s |\n", at, kind(&p), strings.ReplaceAll(text, "|", `\|`))
		fields(out, at, &p)
		if p.Items != nil && p.Items.Schema != nil {
			fields(out, at+"[]", p.Items.Schema)
		}
		if p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil {
			fields(out, at+".*", p.AdditionalProperties.Schema)
		}
	}
}

// isoDuration begins the pattern of duration fields that can be in ISO 8601, which no format of OpenAPI covers.
const isoDuration = `^(([0-9]{1,6}(\.[0-9]{1,9})?(h|m|s|ms))+|P`

// kind returns the type of a field in the words of a reader.
func kind(p *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case p.Type == "string" && (p.Format == "duration" || strings.HasPrefix(p.Pattern, isoDuration)):
		return "duration"
	case p.Type == "string" && p.Format == "date-time":
		return "time"
	case p.XIntOrString:
		return "integer or string"
	case p.Type == "array" && p.Items != nil && p.Items.Schema != nil:
		return "list of " + kind(p.Items.Schema)
	case p.Type == "object" && p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil:
		return "map of " + kind(p.AdditionalProperties.Schema)
	case p.Type == "":
		return "any"
	}
	return p.Type
}

// bounded matches bounds that the description already states.
var bounded = regexp.MustCompile(`(?i)\bmust be\b|\bone of\b|\bfrom [0-9]|: .+ or |\bcan contain\b`)

// nothing lists defaults that say nothing: the fields below a group have defaults of their own.
var nothing = []string{`{}`, `""`}

// constraints returns the validation and defaults of a field that its description does not already
// state. Rules between fields are in descriptions: their messages are about mistakes.
func constraints(p *apiextensionsv1.JSONSchemaProps, required bool) string {
	var out []string
	if bounded.MatchString(p.Description) {
		p = p.DeepCopy()
		p.Enum, p.Minimum, p.Maximum = nil, nil, nil
	}
	required = required && !strings.Contains(p.Description, "Required")
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if required {
		add("Required.")
	}
	if p.Default != nil && !strings.Contains(p.Description, "Defaults to") && !slices.Contains(nothing, string(p.Default.Raw)) {
		add("Default: `%s`.", p.Default.Raw)
	}
	if len(p.Enum) > 0 {
		var values []string
		for _, v := range p.Enum {
			values = append(values, "`"+strings.Trim(string(v.Raw), `"`)+"`")
		}
		add("One of %s.", strings.Join(values, ", "))
	}
	if p.Minimum != nil {
		add("%s %s.", map[bool]string{false: "At least", true: "More than"}[p.ExclusiveMinimum], number(*p.Minimum))
	}
	if p.Maximum != nil {
		add("%s %s.", map[bool]string{false: "At most", true: "Less than"}[p.ExclusiveMaximum], number(*p.Maximum))
	}
	if p.MaxLength != nil && kind(p) != "duration" {
		add("At most %d characters.", *p.MaxLength)
	}
	if p.MaxItems != nil {
		add("At most %d items.", *p.MaxItems)
	}
	if p.MaxProperties != nil {
		add("At most %d keys.", *p.MaxProperties)
	}
	return strings.Join(out, " ")
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// sentence returns text on one line, ending with a period.
func sentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if text == "" || strings.HasSuffix(text, ".") {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const reasonsPage = "docs/reasons.md"

// reasonRoots are the folders whose constants may be reasons.
var reasonRoots = []string{"api", "canary", "emitter", "reconciler"}

// directive begins the comment that names the tables in which the constants of a block are listed.
const directive = "//reasons:table "

// reason is a constant that is listed.
type reason struct {
	// name is that of the constant with its package, and value what it stands for.
	name, value string
	// meaning and do are the first sentence of its comment, and the others.
	meaning, do string
}

// table lists the reasons of one condition.
type table struct{ key, title, about string }

// group is about one kind.
type group struct {
	kind, about string
	tables      []table
}

// groups is the page, apart from the reasons.
var groups = []group{
	{
		"CDEventSource", "`Ready` is True if all other conditions but `Delivering` are. Otherwise, it has the reason of one of them.",
		[]table{
			{"CDEventSource/Valid", "Condition `Valid`", "The spec, apart from its sinks, is valid."},
			{
				"CDEventSource/Sink", "Conditions `SinkProvided` and `DeadLetterSinkResolved`",
				"The sink, and the dead letter sink if there is one, has an address.",
			},
			{
				"CDEventSource/CredentialsReady", "Condition `CredentialsReady`",
				"The source has the [credentials](security.md) for its sinks, or needs none.",
			},
			{"CDEventSource/Delivering", "Condition `Delivering`", "The sink accepts [events](delivery.md)."},
		},
	},
	{
		"CanaryGate", "`Ready` is True if all other conditions are. Otherwise, it has the reason of one of them.",
		[]table{
			{"CanaryGate/Valid", "Condition `Valid`", "The spec is valid."},
			{"CanaryGate/ServiceFound", "Condition `ServiceFound`", "The Service exists, and its traffic is known."},
			{"CanaryGate/Measured", "Condition `Measured`", "What the gate's metrics need [is measured](canary.md#what-is-not-known)."},
			{
				"CanaryGate/TemplateApplied", "Condition `TemplateApplied`",
				"The gate's [template](gate-templates.md) exists and is valid. A gate without a template does not have this condition.",
			},
			{
				"CanaryGate/Run", "Reasons of a run",
				"The status of a gate has them in `run`, `latest` and `history`, and for each metric in `run.report.metrics`. The result\n" +
					"`reasons` of a CustomRun, [the answer over HTTP](gate-http.md) and the [event](events.md#devcdeventstestcaserunfinished) have\n" +
					"the same. The reason after `NoData` can be one of condition `Measured`. A CustomRun that is refused has the reason of its\n" +
					"condition.",
			},
			{
				"HTTP/Answer", "Reasons of an answer",
				"[The answer over HTTP](gate-http.md#which-run-the-answer-is-about) also has these. It can have the reason of\n" +
					"`ServiceFound`, `Valid` or `TemplateApplied`, and `GateSuspended`.",
			},
		},
	},
	{
		"CustomRun", "A [CustomRun of Tekton](tekton.md#params-and-results) that names a gate.",
		[]table{{"CustomRun/Succeeded", "Condition `Succeeded`", "The canary may go on."}},
	},
	{
		"Incidents", "An [incident](events.md#devcdeventsincidentdetected) of a Service or an environment has the reason of the condition that\n" +
			"Knative Serving or the provider has set. Those of [stateful clusters](stateful.md) have one of these:",
		[]table{{"Incident/Cluster", "Stateful clusters", "The field is `customData.incident.reason`."}},
	},
}

const reasonsHead = `# Conditions and reasons

<!-- Written by "make generate" from constants in Go and their comments. Do not edit. -->

This page lists every reason that a condition or a verdict can have, and what you can do about it. A reason is for
programs: [none is renamed](api.md#what-is-part-of-the-api). The message beside it names the object or the field.
` + "`kubectl describe`" + ` shows both, and ` + "`kubectl cdevents why`" + ` tells you [what to do](kubectl.md).

A condition that is True has a reason only if there is something to say. A condition without a reason has not been
computed yet.
`

// reasons returns the page of all reasons, from the source code below a root.
func reasons(root fs.FS) ([]byte, error) {
	all, err := listedReasons(root)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString(reasonsHead)
	for _, g := range groups {
		fmt.Fprintf(&out, "\n## %s\n\n%s\n", g.kind, g.about)
		for _, t := range g.tables {
			found := all[t.key]
			if len(found) == 0 {
				return nil, fmt.Errorf("no constant is listed in table %s", t.key)
			}
			delete(all, t.key)
			fmt.Fprintf(&out, "\n### %s\n\n%s\n\n| reason | meaning | what to do |\n|---|---|---|\n", t.title, t.about)
			slices.SortFunc(found, func(a, b reason) int { return cmp.Compare(a.value, b.value) })
			for i, r := range found {
				if i > 0 && found[i-1].value == r.value {
					return nil, fmt.Errorf("%s and %s are both %q in table %s", found[i-1].name, r.name, r.value, t.key)
				}
				fmt.Fprintf(&out, "| `%s` | %s | %s |\n", r.value, cell(r.meaning), cell(r.do))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		return nil, fmt.Errorf("%s names table %s, which does not exist", all[key][0].name, key)
	}
	return out.Bytes(), nil
}

// cell writes text as the cell of a table, which ends without a period.
func cell(text string) string {
	return strings.ReplaceAll(strings.TrimSuffix(text, "."), "|", `\|`)
}

// listedReasons returns the constants of all blocks with the directive, by table.
func listedReasons(root fs.FS) (map[string][]reason, error) {
	out := map[string][]reason{}
	err := eachFile(root, reasonRoots, func(path string, f *ast.File) error {
		for _, d := range f.Decls {
			block, isBlock := d.(*ast.GenDecl)
			if !isBlock {
				continue
			}
			tables := tablesOf(block)
			if len(tables) == 0 {
				continue
			}
			found, err := reasonsIn(f.Name.Name, block)
			if err != nil {
				return fmt.Errorf("reading %s: %w", path, err)
			}
			for _, key := range tables {
				out[key] = append(out[key], found...)
			}
		}
		return nil
	})
	return out, err
}

// eachFile parses the Go files below some folders, apart from tests.
func eachFile(root fs.FS, folders []string, do func(path string, f *ast.File) error) error {
	for _, folder := range folders {
		err := fs.WalkDir(root, folder, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "testdata":
				return fs.SkipDir
			case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			raw, err := fs.ReadFile(root, path)
			if err != nil {
				return fmt.Errorf("reading %s: %w", path, err)
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, raw, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return fmt.Errorf("parsing %s: %w", path, err)
			}
			return do(path, f)
		})
		if err != nil {
			return fmt.Errorf("reading the code below %s: %w", folder, err)
		}
	}
	return nil
}

// tablesOf returns the tables that the directive of a block names.
func tablesOf(block *ast.GenDecl) []string {
	if block.Tok != token.CONST || block.Doc == nil {
		return nil
	}
	for _, line := range block.Doc.List {
		if tables, is := strings.CutPrefix(line.Text, directive); is {
			return strings.Fields(tables)
		}
	}
	return nil
}

// reasonsIn returns the constants of a block. Each has a value of its own, and a comment that begins with its name.
func reasonsIn(pkg string, block *ast.GenDecl) ([]reason, error) {
	var out []reason
	for _, s := range block.Specs {
		spec, isValue := s.(*ast.ValueSpec)
		if !isValue || len(spec.Names) != 1 || len(spec.Values) != 1 {
			return nil, fmt.Errorf("a block with reasons has something else than one constant a line")
		}
		name := spec.Names[0].Name
		literal, isLiteral := spec.Values[0].(*ast.BasicLit)
		if !isLiteral {
			return nil, fmt.Errorf("the value of %s is not a literal", name)
		}
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			return nil, fmt.Errorf("the value of %s: %w", name, err)
		}
		text, says := strings.CutPrefix(strings.Join(strings.Fields(spec.Doc.Text()), " "), name+": ")
		if !says {
			return nil, fmt.Errorf("the comment of %s does not begin with %q", name, name+": ")
		}
		meaning, do, _ := strings.Cut(text, ". ")
		if do != "" {
			do = strings.ToLower(do[:1]) + do[1:]
		}
		out = append(out, reason{pkg + "." + name, value, meaning, do})
	}
	return out, nil
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/knative-cdevents/knative-cdevents/dashboards"
)

const root = "../.."

func TestGeneratedFilesAreCommitted(t *testing.T) {
	t.Parallel()
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(dashboards.All())+2 { // the ConfigMap, and the rules
		t.Errorf("%d files", len(files))
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s is out of date: run \"make generate\" (%v)", name, err)
		}
	}
}

func TestWrites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := run(dir); err == nil || !strings.Contains(err.Error(), "root of the repository") {
		t.Errorf("wrote into an empty folder: %v", err)
	}
	for _, folder := range []string{"dashboards", "config/optional/monitoring"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "dashboards/canary.json")); err != nil {
		t.Error(err)
	}
}

// board is the part of Grafana's model that these tests check.
type board struct {
	UID           string
	ID            *int
	SchemaVersion int
	Editable      bool
	Panels        []struct {
		ID                       int
		Type, Title, Description string
		Datasource               source
		GridPos                  struct{ X, Y, W, H int }
		FieldConfig              struct {
			Defaults  struct{ Unit, NoValue string }
			Overrides []struct {
				Matcher    struct{ ID, Options string }
				Properties []struct {
					ID    string
					Value any
				}
			}
		}
		Targets []struct {
			RefID, Expr, Format, LegendFormat string
			Instant, Range                    bool
			Datasource                        source
		}
		Transformations []struct {
			ID      string
			Options map[string]any
		}
	}
	Templating struct {
		List []struct {
			Name, Type, Label, Query, Definition, AllValue string
			Refresh                                        int
			Multi, IncludeAll                              bool
			Datasource                                     source
			Current                                        struct{ Value any }
		}
	}
}

type source struct{ Type, UID string }

func rendered(t *testing.T, d dashboards.Dashboard) board {
	t.Helper()
	content, err := render(d)
	if err != nil {
		t.Fatal(err)
	}
	var b board
	if err := json.Unmarshal(content, &b); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPanels(t *testing.T) {
	t.Parallel()
	chosen := source{"prometheus", "${datasource}"}
	for _, d := range dashboards.All() {
		b := rendered(t, d)
		// With an id, Grafana would take it for an existing dashboard.
		if b.UID != d.UID || b.ID != nil || b.Editable || b.SchemaVersion < 39 {
			t.Errorf("%s: %q %v %v %v", d.Title, b.UID, b.ID, b.Editable, b.SchemaVersion)
		}
		ids := map[int]bool{}
		taken := map[[2]int]string{}
		shown := 0
		for _, p := range b.Panels {
			if p.ID == 0 || ids[p.ID] {
				t.Errorf("%s: %q has the id %d", d.Title, p.Title, p.ID)
			}
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" || x > 23 {
						t.Fatalf("%s: %q lies on %q or beyond the edge, at %d, %d", d.Title, p.Title, other, x, y)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			if p.Type == "row" {
				continue
			}
			shown++
			if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || p.Datasource != chosen || len(p.Targets) == 0 {
				t.Errorf("%s: %q lacks a title, a description, a unit, the data source or a query", d.Title, p.Title)
			}
			if at := strings.Index(p.Description, "docs/"); at > 0 && p.Description[at-1] != '[' && p.Description[at-1] != '/' {
				t.Errorf("%s: the description of %q names a page without a link: %s", d.Title, p.Title, p.Description)
			}
			refs := map[string]bool{}
			for _, q := range p.Targets {
				if q.RefID == "" || refs[q.RefID] || q.Expr == "" || q.Datasource != chosen {
					t.Errorf("%s: %q: query %+v", d.Title, p.Title, q)
				}
				refs[q.RefID] = true
				if table := p.Type == "table"; q.Instant != table || q.Range == table || (q.Format == "table") != table {
					t.Errorf("%s: %q is a %s and asks so: %+v", d.Title, p.Title, p.Type, q)
				}
			}
		}
		panels := 0
		for _, row := range d.Rows {
			panels += len(row.Panels)
		}
		if shown != panels {
			t.Errorf("%s shows %d panels of %d", d.Title, shown, panels)
		}
	}
}

func TestVariables(t *testing.T) {
	t.Parallel()
	for _, d := range dashboards.All() {
		b := rendered(t, d)
		if len(b.Templating.List) != len(d.Variables)+1 {
			t.Fatalf("%s: %+v", d.Title, b.Templating.List)
		}
		for i, v := range b.Templating.List {
			if v.Label == "" {
				t.Errorf("%s: %q has no label", d.Title, v.Name)
			}
			if i == 0 {
				if v.Name != "datasource" || v.Type != "datasource" || v.Query != "prometheus" {
					t.Errorf("%s: %+v", d.Title, v)
				}
				continue
			}
			want := "label_values(" + d.Variables[i-1].Series + ", " + d.Variables[i-1].Label + ")"
			if v.Type != "query" || v.Query != want || v.Definition != want || v.Datasource.UID != "${datasource}" || v.Refresh != 2 {
				t.Errorf("%s: %+v, want %s", d.Title, v, want)
			}
			if v.Multi != d.Variables[i-1].Many || v.IncludeAll != v.Multi || (v.AllValue == dashboards.Everything || v.AllValue == dashboards.Anything) != v.Multi || (v.Current.Value != nil) != v.Multi {
				t.Errorf("%s: %+v", d.Title, v)
			}
		}
	}
}

// The two views of errors are side by side and share an axis, the larger of both.
func TestViewsShareAnAxis(t *testing.T) {
	t.Parallel()
	b := rendered(t, dashboards.All()[0])
	var axes []string
	for _, p := range b.Panels {
		for _, o := range p.FieldConfig.Overrides {
			if o.Properties[0].ID != "color" || o.Matcher.ID != "byFrameRefID" {
				continue
			}
			last := p.Targets[len(p.Targets)-1]
			if o.Matcher.Options != last.RefID || last.LegendFormat != "axis" {
				t.Errorf("%q takes its axis from %v", p.Title, o)
			}
			axes = append(axes, last.Expr)
			if p.GridPos.X != 12*((len(axes)+1)%2) {
				t.Errorf("%q is not beside what it is compared with: %+v", p.Title, p.GridPos)
			}
		}
	}
	if len(axes) != 4 || axes[0] != axes[1] || axes[2] != axes[3] || axes[0] == axes[2] {
		t.Errorf("axes: %v", axes)
	}
}

// A Revision has the same color in all panels, whatever its series are called, and not that of its neighbors.
func TestColorsOfRevisions(t *testing.T) {
	t.Parallel()
	colors := map[string]string{}
	for _, c := range revisionColors() {
		// Go's expressions have no lookahead. Grafana's have; the test of the rendered pages covers it.
		pattern := regexp.MustCompile(strings.Replace(c.Names, "(?: (?!→)|$)", "(?: [^→]|$)", 1))
		for i, series := range [][]string{
			{"cart-00001", "cart-00001 required", "cart-00001 Cart real", "cart-00002 → cart-00001"},
			{"cart-00002", "cart-00002 handled", "cart-00002 started, not finished", "other → cart-00002"},
			{"cart-00010"},
			{"cart-blue", "cart-blue required"},
			{"cart-green"},
		} {
			for _, name := range series {
				if pattern.MatchString(name) {
					if was := colors[name]; was != "" {
						t.Errorf("%s is %s and %s", name, was, c.Color)
					}
					colors[name] = c.Color
				}
				if colors[name] != colors[series[0]] && pattern.MatchString(name) {
					t.Errorf("%d: %s has another color than %s", i, name, series[0])
				}
			}
		}
	}
	seen := map[string]string{}
	for _, name := range []string{"cart-00001", "cart-00002", "cart-00010", "cart-blue", "cart-green"} {
		if colors[name] == "" || seen[colors[name]] != "" {
			t.Errorf("%s has the color %q, as %q has", name, colors[name], seen[colors[name]])
		}
		seen[colors[name]] = name
	}
}

func TestTablesHaveHeadings(t *testing.T) {
	t.Parallel()
	b := rendered(t, dashboards.All()[0])
	var headings []string
	for _, p := range b.Panels {
		if p.Type != "table" {
			continue
		}
		organize := p.Transformations[1].Options
		names, _ := organize["renameByName"].(map[string]any)   // asserted below
		hidden, _ := organize["excludeByName"].(map[string]any) // as above
		if names["kn_revision_name"] != "Revision" || hidden["Time"] != true || p.Transformations[0].ID != "merge" {
			t.Errorf("%q: %v", p.Title, organize)
		}
		for _, q := range p.Targets {
			value := "Value #" + q.RefID
			if len(p.Targets) == 1 {
				value = "Value"
			}
			if heading, ok := names[value].(string); ok == (hidden[value] == true) {
				t.Errorf("%q: %s is called %q", p.Title, value, heading)
			} else if ok {
				headings = append(headings, heading)
			}
		}
		for _, o := range p.FieldConfig.Overrides {
			if o.Matcher.ID == "byType" {
				continue
			}
			if o.Matcher.ID != "byName" || o.Matcher.Options != headings[0] || o.Properties[0].ID != "unit" {
				t.Errorf("%q: %+v", p.Title, o)
			}
			headings = headings[1:]
		}
		if len(headings) > 0 {
			t.Errorf("%q: no unit for %v", p.Title, headings)
		}
	}
}

func TestTargetsAreDashed(t *testing.T) {
	t.Parallel()
	for _, p := range rendered(t, dashboards.All()[0]).Panels {
		if p.Title == "Required and real share" {
			o := p.FieldConfig.Overrides
			if last := o[len(o)-1]; len(o) != 1+len(revisionColors()) || last.Matcher.ID != "byFrameRefID" || last.Matcher.Options != "A" || last.Properties[0].ID != "custom.lineStyle" {
				t.Errorf("%+v", o)
			}
			return
		}
	}
	t.Error("no such panel")
}

func TestConfigMap(t *testing.T) {
	t.Parallel()
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	content := files["config/optional/monitoring/dashboards.yaml"]
	var m corev1.ConfigMap
	if err := yaml.UnmarshalStrict(content, &m); err != nil {
		t.Fatal(err)
	}
	if m.Kind != "ConfigMap" || m.Namespace != "knative-cdevents" || m.Labels["grafana_dashboard"] != "1" || m.Labels["app.kubernetes.io/name"] != "knative-cdevents" {
		t.Errorf("%v", m.ObjectMeta)
	}
	// kubectl apply's last-applied annotation must be able to hold it.
	if len(content) > 200<<10 {
		t.Errorf("%d bytes", len(content))
	}
	if len(m.Data) != len(dashboards.All()) {
		t.Errorf("%d dashboards", len(m.Data))
	}
	for name, board := range m.Data {
		var want bytes.Buffer
		if err := json.Compact(&want, files["dashboards/"+name]); err != nil || board != want.String() {
			t.Errorf("%s differs (%v)", name, err)
		}
	}
}

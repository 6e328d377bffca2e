// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

func TestEveryPanelHasADescription(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, d := range All() {
		if d.UID == "" || len(d.UID) > 40 || d.File == "" || d.Description == "" || seen[d.UID] {
			t.Errorf("%q has no UID, file or description of its own, or a UID of more than the 40 characters that Grafana takes", d.Title)
		}
		seen[d.UID] = true
		for _, row := range d.Rows {
			line, before := 0, 0
			for _, p := range row.Panels {
				if p.Title == "" || len(p.Description) < 20 || len(p.Queries) == 0 || seen[d.UID+p.Title] {
					t.Errorf("%s: panel %q has no title of its own, no description, or no query", d.Title, p.Title)
				}
				seen[d.UID+p.Title] = true
				if p.Empty == "" {
					t.Errorf("%s: %q does not say why it can have no data", d.Title, p.Title)
				}
				if (p.Unit == "") != (p.Kind == Table) {
					t.Errorf("%s: %q has the unit %q", d.Title, p.Title, p.Unit)
				}
				for _, q := range p.Queries {
					if p.Kind != Table && (q.Legend == "" || q.Column != "") || p.Kind == Table && (q.Legend != "" || (q.Column == "") != (q.Unit == "")) {
						t.Errorf("%s: %q: %q has the legend %q and the column %q in %q", d.Title, p.Title, q.Expr, q.Legend, q.Column, q.Unit)
					}
				}
				if line > 0 && p.Height != before {
					t.Errorf("%s: %q is not as high as what is left of it", d.Title, p.Title)
				}
				before = p.Height
				line += p.Width
				if line == 24 {
					line = 0
				}
			}
			if line != 0 {
				t.Errorf("%s: the panels of %q leave a gap: their last line is %d of 24 wide", d.Title, row.Title, line)
			}
		}
	}
}

// parse fails the test if Prometheus cannot parse a query.
func parse(t *testing.T, b Bound) parser.Expr {
	t.Helper()
	e, err := parser.NewParser(parser.Options{}).ParseExpr(b.Expr)
	if err != nil {
		t.Fatalf("%s: %s: %s: %v", b.Dashboard, b.Panel, b.Expr, err)
	}
	return e
}

// A panel for a metric that is not exported stays empty, and nothing reports it.
func TestEveryMetricIsExported(t *testing.T) {
	names := exported(t)
	for _, name := range described(t) {
		names[name] = true
	}
	for _, b := range Queries(Values{Namespace: "shop", Service: "cart"}) {
		used := parser.ExtractSelectors(parse(t, b))
		if len(used) == 0 {
			t.Errorf("%s: %s: no metric in %s", b.Dashboard, b.Panel, b.Expr)
		}
		for _, matchers := range used {
			i := slices.IndexFunc(matchers, func(m *labels.Matcher) bool { return m.Name == "__name__" })
			if i < 0 || !names[matchers[i].Value] {
				t.Errorf("%s: %s: %v is not exported", b.Dashboard, b.Panel, matchers)
			}
		}
	}
}

// Everything exported for a Revision is shown.
func TestEveryExportedMetricIsShown(t *testing.T) {
	var all strings.Builder
	for _, b := range Queries(Values{}) {
		all.WriteString(b.Expr + "\n")
	}
	own := map[string]bool{ // of the controller's own work; docs/canary.md explains them
		"cdevents_leading_ratio": true, "canary_handled_share_ratio": true, // the alerts look at them
		"canary_scrape_targets": true, "canary_scrape_services": true, "canary_scrape_duration_seconds": true,
	}
	for name := range exported(t) {
		part := slices.ContainsFunc([]string{"_sum", "_count"}, func(s string) bool { return strings.HasSuffix(name, s) })
		if ours := slices.ContainsFunc([]string{"canary_", "cdevents_", "environment_"}, func(p string) bool { return strings.HasPrefix(name, p) }); ours && !part && !own[name] && !strings.Contains(all.String(), name) {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// Queries that distinguish replicas, or take the rate of a sum, break at a change of leader. A
// fixed window is wrong for some scrape interval.
func TestQueriesSurviveAChangeOfLeader(t *testing.T) {
	t.Parallel()
	v := Values{Interval: 77 * time.Second, Step: 44 * time.Second, Shown: 99 * time.Second}
	for _, b := range Queries(v) {
		if strings.HasPrefix(b.Panel, "variable ") {
			continue // the reader may choose a replica
		}
		parser.Inspect(parse(t, b), func(n parser.Node, above []parser.Node) error {
			aggregate := slices.ContainsFunc(above, func(n parser.Node) bool { _, is := n.(*parser.AggregateExpr); return is })
			switch n := n.(type) {
			case *parser.VectorSelector:
				if !aggregate {
					t.Errorf("%q: %s is not aggregated over replicas", b.Panel, n)
				}
				if n.OriginalOffset != 0 && n.OriginalOffset != v.Step && (b.Column == "" || n.OriginalOffset != v.Shown) {
					t.Errorf("%q looks back for %v", b.Panel, n.OriginalOffset)
				}
			case *parser.AggregateExpr:
				if n.Without || slices.ContainsFunc(n.Grouping, func(l string) bool { return slices.Contains([]string{"pod", "instance", "job", "container"}, l) }) {
					t.Errorf("%q distinguishes replicas: %s", b.Panel, n)
				}
			case *parser.MatrixSelector:
				if n.Range != v.Interval && (b.Column == "" || n.Range != v.Shown) {
					t.Errorf("%q looks over %v", b.Panel, n.Range)
				}
			case *parser.SubqueryExpr:
				t.Errorf("%q takes the rate of an aggregate: %s", b.Panel, n)
			}
			return nil
		})
	}
}

func TestQueriesAreBound(t *testing.T) {
	t.Parallel()
	all := Queries(Values{Namespace: "shop", Service: "cart", Environment: "production", Revision: "cart-(1|2)", Interval: 90 * time.Second, Step: 30 * time.Second, Shown: time.Hour})
	var text strings.Builder
	for _, b := range all {
		if strings.Contains(b.Expr, "$") || b.Dashboard == "" || b.Panel == "" {
			t.Errorf("%+v", b)
		}
		text.WriteString(b.Expr)
	}
	for _, want := range []string{
		`k8s_namespace_name="shop"`, `kn_service_name="cart"`, `kn_revision_name=~"cart-(1|2)"`, `kn_revision_name=~"cart-(1|2)|"`,
		`source=~".+"`, "[90000ms]", "[3600000ms]", "offset 30000ms", "time() - 30000 / 1000",
		`job=~".*",instance=~".*"`,
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no query contains %s", want)
		}
	}
	if defaults := fmt.Sprint(Queries(Values{})); !strings.Contains(defaults, "[60000ms]") || !strings.Contains(defaults, "[900000ms]") {
		t.Errorf("no default windows: %s", defaults)
	}
}

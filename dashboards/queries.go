// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Values are the selections of a dashboard's reader.
type Values struct {
	Namespace, Service string
	// Environment is that of deployments.
	Environment string
	// Revision and Source are regular expressions; empty means all.
	Revision, Source string
	// Interval is the window of rates (0: a minute); Grafana uses at least four scrape intervals.
	// Step is the distance of two values of a panel (0: a minute).
	// Shown is the dashboard's time range (0: a quarter of an hour).
	Interval, Step, Shown time.Duration
}

// Bound is a query as Grafana sends it to Prometheus.
type Bound struct {
	Dashboard, Panel string
	Query
}

// Queries returns the queries of all panels and variables, with values inserted.
func Queries(v Values) []Bound {
	steps := cmp.Or(v.Step, time.Minute)
	bind := strings.NewReplacer(
		"$job",
		Anything,
		"$instance",
		Anything,
		"$namespace",
		v.Namespace,
		"$service",
		v.Service,
		"$gate",
		Anything,
		"$environment",
		v.Environment,
		"$revision",
		cmp.Or(v.Revision, Everything),
		"$source",
		cmp.Or(v.Source, Everything),
		stepMillis,
		strconv.FormatInt(steps.Milliseconds(), 10),
		step,
		promDuration(steps),
		short,
		promDuration(cmp.Or(v.Interval, time.Minute)),
		shown,
		promDuration(cmp.Or(v.Shown, 15*time.Minute)),
	)
	var out []Bound
	for _, d := range All() {
		for _, choice := range d.Variables {
			out = append(out, Bound{
				Dashboard: d.Title,
				Panel:     "variable " + choice.Name,
				Query: Query{
					Expr:   bind.Replace(fmt.Sprintf("group by (%s) (%s)", choice.Label, choice.Series)),
					Legend: "{{" + choice.Label + "}}",
				},
			})
		}
		for _, a := range d.Annotations {
			out = append(out, Bound{
				Dashboard: d.Title, Panel: "annotation " + a.Name,
				Query: Query{Expr: bind.Replace(a.Expr), Legend: a.Text},
			})
		}
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				for _, q := range p.Queries {
					q.Expr = bind.Replace(q.Expr)
					out = append(out, Bound{Dashboard: d.Title, Panel: p.Title, Query: q})
				}
			}
		}
	}
	return out
}

// What Grafana sends if all values are selected. Anything also matches series without the label: one that was pushed
// has no job or instance.
const (
	Everything = ".+"
	Anything   = ".*"
)

func promDuration(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

package dashboards

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Values are the selections of a dashboard's reader.
type Values struct {
	Namespace, Service string
	// Revision and Source are regular expressions; empty means all.
	Revision, Source string
	// Interval is the window of rates (0: a minute); Grafana uses at least four scrape intervals.
	// Shown is the dashboard's time range (0: a quarter of an hour).
	Interval, Shown time.Duration
}

// Bound is a query as Grafana sends it to Prometheus.
type Bound struct {
	Dashboard, Panel string
	// Empty, if set, says why having no data is normal.
	Empty string
	Query
}

// Queries returns the queries of all panels and variables, with values inserted. Each one without
// Empty has data once a Service is measured.
func Queries(v Values) []Bound {
	bind := strings.NewReplacer(
		"$namespace", v.Namespace, "$service", v.Service,
		"$revision", cmp.Or(v.Revision, Everything), "$source", cmp.Or(v.Source, Everything),
		short, promDuration(cmp.Or(v.Interval, time.Minute)), shown, promDuration(cmp.Or(v.Shown, 15*time.Minute)),
	)
	var out []Bound
	for _, d := range All() {
		for _, choice := range d.Variables {
			out = append(out, Bound{
				Dashboard: d.Title, Panel: "variable " + choice.Name,
				Query: Query{Expr: bind.Replace(fmt.Sprintf("group by (%s) (%s)", choice.Label, choice.Series)), Legend: "{{" + choice.Label + "}}"},
			})
		}
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				for _, q := range p.Queries {
					q.Expr = bind.Replace(q.Expr)
					out = append(out, Bound{Dashboard: d.Title, Panel: p.Title, Empty: p.Empty, Query: q})
				}
			}
		}
	}
	return out
}

// Everything is what Grafana sends if all values are selected.
const Everything = ".+"

func promDuration(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

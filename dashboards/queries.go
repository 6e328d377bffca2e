package dashboards

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Values stand for what a reader of a dashboard has chosen.
type Values struct {
	Namespace, Service string
	// Revision and Source are regular expressions; empty: all.
	Revision, Source string
	// Interval is over what rates are taken (0: a minute); Grafana's least is four
	// times that of scraping. Shown is the time that a dashboard shows (0: a quarter
	// of an hour).
	Interval, Shown time.Duration
}

// Bound is a query as Grafana sends it to Prometheus.
type Bound struct {
	Dashboard, Panel string
	// Empty is not empty where no data may be as it should be, and says why.
	Empty string
	Query
}

// Queries are those of all panels, and of the lists to choose from, with values put
// in. Each that may not be empty has data once a Service is measured.
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

// Everything is what Grafana sends where all values are chosen.
const Everything = ".+"

func promDuration(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

// Package dashboards says what our Grafana dashboards show: panels and their queries,
// without Grafana's own types, so that a test can ask every query of a Prometheus.
//
// Its invariants: no query tells replicas apart, so that every figure survives a
// change of leader; nothing is drawn as zero that is not known; no label is asked
// for that the exporters do not have.
package dashboards

// Dashboard is one, as people find it in Grafana.
type Dashboard struct {
	// File is the name of the generated JSON.
	File string
	// UID stands in links to it and never changes.
	UID, Title, Description string
	Variables               []Variable
	Rows                    []Row
}

// Variable is what a reader chooses from: the values of a label.
type Variable struct {
	Name, Title, Description string
	// Series have the label.
	Series, Label string
	// Many may be chosen, and all are at first.
	Many bool
}

// Row is a headed part of a dashboard.
type Row struct {
	Title  string
	Panels []Panel
}

// Kind is how a panel shows its figures.
type Kind int

// The kinds. Bars are stacked.
const (
	Lines Kind = iota
	Bars
	Table
)

// Panel shows one thing.
type Panel struct {
	Title, Description string
	Kind               Kind
	// Unit is Grafana's name of it; a table has one for each column instead.
	Unit string
	// Width of 24.
	Width int
	// Max is the upper end of the axis; 0: as high as needed.
	Max float64
	// Empty is what is shown where there is nothing to show, if that is as it should
	// be.
	Empty   string
	Queries []Query
}

// Query is one, in PromQL with Grafana's variables.
type Query struct {
	Expr string
	// Legend names a line, by labels in double braces.
	Legend string
	// Column is the heading of a table's column, Unit that of its figures; a query
	// without a column tells by its labels.
	Column, Unit string
	// Dashed lines are what should be, others what is.
	Dashed bool
	// Axis is not drawn: its largest value is the upper end of the axis. Panels that
	// have the same can be compared at a glance.
	Axis bool
}

// All returns every dashboard.
func All() []Dashboard { return []Dashboard{canary(), cdevents()} }

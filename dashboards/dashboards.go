// Package dashboards defines our Grafana dashboards: panels and their queries, without Grafana's
// own types, so that a test can run every query on a Prometheus.
//
// Its invariants: no query distinguishes replicas, so every value survives a change of leader;
// unknown values are never drawn as zero; queries use only labels that the exporters have.
package dashboards

// Dashboard is a dashboard, as it appears in Grafana.
type Dashboard struct {
	// File is the name of the generated JSON.
	File string
	// UID is part of links to the dashboard and never changes.
	UID, Title, Description string
	Variables               []Variable
	Rows                    []Row
}

// Variable is a choice for the reader: the values of a label.
type Variable struct {
	Name, Title, Description string
	// Series is a metric that has the label.
	Series, Label string
	// Many: several values can be selected, and all are selected at first.
	Many bool
}

// Row is a titled section of a dashboard.
type Row struct {
	Title  string
	Panels []Panel
}

// Kind is how a panel shows its values.
type Kind int

// The kinds. Bars are stacked.
const (
	Lines Kind = iota
	Bars
	Table
)

// Panel shows one aspect.
type Panel struct {
	Title, Description string
	Kind               Kind
	// Unit is Grafana's name of the unit; a table has one for each column instead.
	Unit string
	// Width is the width in 24ths of the dashboard.
	Width int
	// Max is the upper end of the axis; 0 means automatic.
	Max float64
	// Empty is the text shown without data, if having none is normal.
	Empty   string
	Queries []Query
}

// Query is a PromQL query with Grafana's variables.
type Query struct {
	Expr string
	// Legend names a line, by labels in double braces.
	Legend string
	// Column is the heading of a table's column, Unit the unit of its values; a query without a
	// column contributes its labels.
	Column, Unit string
	// Dashed lines show targets, others show measurements.
	Dashed bool
	// Axis queries are not drawn: their largest value is the upper end of the axis. Panels with the
	// same axis can be compared at a glance.
	Axis bool
}

// All returns every dashboard.
func All() []Dashboard { return []Dashboard{canary(), cdevents()} }

// SPDX-License-Identifier: Apache-2.0

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
	Annotations             []Annotation
	Rows                    []Row
}

// Annotation marks moments in all panels of a dashboard: those where its query has a value above 0.
type Annotation struct {
	Name, Expr string
	// Text says what has happened, by labels in double braces.
	Text string
	// Color is Grafana's name of the color.
	Color string
}

// Variable is a choice for the reader: the values of a label.
type Variable struct {
	Name, Title, Description string
	// Series is a metric that has the label.
	Series, Label string
	// Many: several values can be selected, and all are selected at first.
	Many bool
	// Optional: a series may lack the label, and is then shown if all values are selected.
	Optional bool
	// Empty, if set, says why having no value is normal.
	Empty string
}

// Row is a titled section of a dashboard.
type Row struct {
	Title  string
	Panels []Panel
}

// Kind is how a panel shows its values.
type Kind int

// The kinds. Bars are stacked. States have a row for each series, and a text and a color for each value.
const (
	Lines Kind = iota
	Bars
	States
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
	// Height is the height in Grafana's units, in each of which a table has one line; 0 means 8.
	Height int
	// Max is the upper end of the axis; 0 means automatic.
	Max float64
	// Least gives an axis by orders of magnitude, which begins there; 0 means a linear one, which begins at 0.
	Least float64
	// Empty is the text shown without data. It says why.
	Empty string
	// Shades make bars of one color different.
	Shades []Shade
	// Colors of series that are no Revisions.
	Colors []Color
	// Values are the texts and colors of the values of States.
	Values []Value
	// To is the UID of the dashboard that the Services of a table lead to.
	To      string
	Queries []Query
}

// Shade is how much of the color fills the bars of series.
type Shade struct {
	// Names is a regular expression.
	Names   string
	Percent int
}

// Color is the color of series, by Grafana's name.
type Color struct {
	// Names is a regular expression.
	Names, Color string
}

// Value is how a value is shown: by a text, in a color by Grafana's name.
type Value struct {
	Number      int
	Text, Color string
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
	// Axis queries are not drawn, but they are on the axis. Panels with the same Axis query have the same axis, and can be
	// compared at a glance.
	Axis bool
}

// All returns every dashboard.
func All() []Dashboard { return []Dashboard{canary(), gates(), cdevents(), fleet(), performance()} }

// scraped are the variables of every dashboard: one Prometheus may scrape several controllers. Of is a metric that
// every replica exports.
func scraped(of string) []Variable {
	return []Variable{
		{
			Name:        "job",
			Title:       "Job",
			Series:      of,
			Label:       "job",
			Many:        true,
			Optional:    true,
			Description: "The job that scrapes the controller.",
		},
		{
			Name:        "instance",
			Title:       "Replica",
			Series:      of + `{job=~"$job"}`,
			Label:       "instance",
			Many:        true,
			Optional:    true,
			Description: "The controller's replicas. The leader alone knows a Service, so leave this at All, except to look at one replica.",
		},
	}
}

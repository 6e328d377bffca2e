package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"

	"github.com/knative-cdevents/knative-cdevents/dashboards"
)

const height = 8

func panel(p dashboards.Panel, id uint32) cog.Builder[dashboard.Panel] {
	if p.Kind == dashboards.Table {
		return columns(p, id)
	}
	return lines(p, id)
}

// refID returns the id of a query in its panel: A, B, C …
func refID(i int) string { return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i : i+1] }

func query(q dashboards.Query, i int) *prometheus.DataqueryBuilder {
	b := prometheus.NewDataqueryBuilder().RefId(refID(i)).Datasource(prometheusSource()).Expr(q.Expr).EditorMode(prometheus.QueryEditorModeCode)
	if q.Legend != "" {
		b.LegendFormat(q.Legend)
	}
	return b
}

// lines returns a panel over time. A Revision's color follows from its name, so it is the same in
// every panel.
func lines(p dashboards.Panel, id uint32) *timeseries.PanelBuilder {
	b := timeseries.NewPanelBuilder().
		Id(id).Title(p.Title).Description(p.Description).Datasource(prometheusSource()).
		Span(uint32(p.Width)).Height(height). //nolint:gosec // at most 24
		Unit(p.Unit).Min(0).
		ColorScheme(dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdPaletteClassicByName)).
		LineWidth(2).FillOpacity(0).ShowPoints(common.VisibilityModeAuto).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).
			DisplayMode(common.LegendDisplayModeTable).Placement(common.LegendPlacementBottom).Calcs([]string{"lastNotNull", "max"})).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	if p.Max > 0 {
		b.Max(p.Max)
	}
	if p.Empty != "" {
		b.NoValue(p.Empty)
	}
	if p.Kind == dashboards.Bars {
		b.DrawStyle(common.GraphDrawStyleBars).FillOpacity(70).LineWidth(0).
			Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal).Group("A"))
	}
	for i, q := range p.Queries {
		b.WithTarget(query(q, i).Range())
		if q.Dashed {
			b.OverrideByQuery(refID(i), []dashboard.DynamicConfigValue{
				{Id: "custom.lineStyle", Value: map[string]any{"fill": "dash", "dash": []int{8, 8}}},
			})
		}
		if q.Axis {
			b.WithTransformation(axis(q.Legend, refID(i)))
		}
	}
	return b
}

// axis makes the largest value of one query the upper end of the axis, and hides the query.
func axis(legend, of string) dashboard.DataTransformerConfig {
	return dashboard.DataTransformerConfig{Id: "configFromData", Options: map[string]any{
		"configRefId": of,
		"mappings":    []map[string]any{{"fieldName": legend, "handlerKey": "max", "reducerId": "max"}},
	}}
}

// headings of label columns.
func headings() map[string]string {
	return map[string]string{"kn_revision_name": "Revision", "figure": "Figure", "reason": "Reason"}
}

// columns returns a table of the current values of several queries, with one line for each set of
// labels.
func columns(p dashboards.Panel, id uint32) *table.PanelBuilder {
	b := table.NewPanelBuilder().
		Id(id).Title(p.Title).Description(p.Description).Datasource(prometheusSource()).
		Span(uint32(p.Width)).Height(height). //nolint:gosec // at most 24
		Unit("short")
	if p.Empty != "" {
		b.NoValue(p.Empty)
	}
	names, hidden, order := headings(), map[string]bool{"Time": true}, map[string]int{"kn_revision_name": 0}
	for i, q := range p.Queries {
		b.WithTarget(query(q, i).Instant().Format(prometheus.PromQueryFormatTable))
		// Grafana names the values differently if a panel has only one query.
		value := "Value #" + refID(i)
		order[value] = i + 1
		if q.Column == "" {
			hidden[value], hidden["Value"] = true, true
			continue
		}
		names[value] = q.Column
		b.OverrideByName(q.Column, []dashboard.DynamicConfigValue{{Id: "unit", Value: q.Unit}, {Id: "decimals", Value: decimals(q.Unit)}})
	}
	return b.
		WithTransformation(dashboard.DataTransformerConfig{Id: "merge", Options: map[string]any{}}).
		WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
			"excludeByName": hidden, "renameByName": names, "indexByName": order,
		}})
}

func decimals(unit string) int {
	if unit == "short" {
		return 0
	}
	return 2
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"

	"github.com/knative-cdevents/knative-cdevents/dashboards"
)

func panel(p dashboards.Panel, id uint32) cog.Builder[dashboard.Panel] {
	switch p.Kind {
	case dashboards.Table:
		return columns(p, id)
	case dashboards.States:
		return states(p, id)
	default:
		return lines(p, id)
	}
}

// height is that of a panel.
func height(p dashboards.Panel) uint32 { return uint32(cmp.Or(p.Height, 8)) } //nolint:gosec // a few lines

// refID returns the id of a query in its panel: A, B, C …
func refID(i int) string { return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i : i+1] }

func query(q dashboards.Query, i int) *prometheus.DataqueryBuilder {
	b := prometheus.NewDataqueryBuilder().RefId(refID(i)).Datasource(prometheusSource()).Expr(q.Expr).
		EditorMode(prometheus.QueryEditorModeCode)
	if q.Legend != "" {
		b.LegendFormat(q.Legend)
	}
	return b
}

// least is what the axis of a unit reaches at least, so that zeros are not drawn on an axis up to 100, and a single
// request is not drawn as a peak.
func least(unit string) float64 {
	switch unit {
	case "percentunit":
		return .01
	case "s":
		return .01
	case "dthms":
		return 60
	}
	return 1
}

var page = regexp.MustCompile(`docs/([a-z-]+\.md)`)

// linked makes links of the pages that a description names: whoever reads it in Grafana does not have them.
func linked(description string) string {
	return page.ReplaceAllString(description, "[docs/$1](https://github.com/knative-cdevents/knative-cdevents/blob/main/docs/$1)")
}

// lines returns a panel over time.
func lines(p dashboards.Panel, id uint32) *timeseries.PanelBuilder {
	b := timeseries.NewPanelBuilder().
		Id(id).Title(p.Title).Description(linked(p.Description)).Datasource(prometheusSource()).
		Span(uint32(p.Width)).Height(height(p)). //nolint:gosec // at most 24
		Unit(p.Unit).AxisSoftMax(least(p.Unit)).NoValue(p.Empty).
		ColorScheme(dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdPaletteClassicByName)).
		LineWidth(2).FillOpacity(0).ShowPoints(common.VisibilityModeAuto).
		Legend(legend(p)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	if p.Unit == "short" {
		b.Decimals(0)
	}
	if p.Max > 0 {
		b.Max(p.Max)
	}
	b.Min(p.Least)
	if p.Least > 0 {
		b.ScaleDistribution(common.NewScaleDistributionConfigBuilder().Type(common.ScaleDistributionLog).Log(10))
	}
	if p.Kind == dashboards.Bars {
		// One bar for a minute, however often the controller is scraped. It covers what it counts: the time before its value.
		b.DrawStyle(common.GraphDrawStyleBars).FillOpacity(80).LineWidth(0).Interval("1m").
			BarAlignment(common.BarAlignmentBefore).
			Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal).Group("A"))
	}
	if slices.ContainsFunc(
		p.Queries,
		func(q dashboards.Query) bool { return strings.Contains(q.Legend, "{{kn_revision_name}}") },
	) {
		for _, c := range revisionColors() {
			b.OverrideByRegexp("/"+c.Names+"/", []dashboard.DynamicConfigValue{fixed(c.Color)})
		}
	}
	for _, c := range p.Colors {
		b.OverrideByRegexp("/"+c.Names+"/", []dashboard.DynamicConfigValue{fixed(c.Color)})
	}
	for _, s := range p.Shades {
		b.OverrideByRegexp("/"+s.Names+"/", []dashboard.DynamicConfigValue{{Id: "custom.fillOpacity", Value: s.Percent}})
	}
	for i, q := range p.Queries {
		b.WithTarget(query(q, i).Range())
		if q.Dashed {
			b.OverrideByQuery(refID(i), []dashboard.DynamicConfigValue{
				{Id: "custom.lineStyle", Value: map[string]any{"fill": "dash", "dash": []int{8, 8}}},
			})
		}
		if q.Axis {
			b.OverrideByQuery(refID(i), invisible())
		}
	}
	return b
}

// states returns a panel with a row for each series, and a block for each stretch of time with one value.
func states(p dashboards.Panel, id uint32) *statetimeline.PanelBuilder {
	shown := map[string]dashboard.ValueMappingResult{}
	for i, v := range p.Values {
		shown[strconv.Itoa(v.Number)] = dashboard.ValueMappingResult{
			Text: ptr(v.Text), Color: ptr(v.Color), Index: ptr(int32(i)),
		}
	}
	b := statetimeline.NewPanelBuilder().
		Id(id).Title(p.Title).Description(linked(p.Description)).Datasource(prometheusSource()).
		Span(uint32(p.Width)).Height(height(p)). //nolint:gosec // at most 24
		Unit(p.Unit).NoValue(p.Empty).
		Mappings([]dashboard.ValueMapping{{ValueMap: &dashboard.ValueMap{
			Type: dashboard.MappingTypeValueToText, Options: shown,
		}}}).
		MergeValues(true).ShowValue(common.VisibilityModeAuto).AlignValue(common.TimelineValueAlignmentLeft).
		RowHeight(0.8).FillOpacity(80).LineWidth(0).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeList).
			Placement(common.LegendPlacementBottom).Calcs([]string{})).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeSingle).Sort(common.SortOrderNone))
	for i, q := range p.Queries {
		b.WithTarget(query(q, i).Range())
	}
	return b
}

// legend is beside a wide panel, and below others: without figures, so that all names fit.
func legend(p dashboards.Panel) *common.VizLegendOptionsBuilder {
	b := common.NewVizLegendOptionsBuilder().ShowLegend(true)
	if p.Width < 16 {
		return b.DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).Calcs([]string{})
	}
	calcs := []string{"lastNotNull", "max"}
	if p.Kind == dashboards.Bars && p.Unit == "short" {
		calcs = []string{"sum"}
	}
	return b.DisplayMode(common.LegendDisplayModeTable).Placement(common.LegendPlacementRight).Calcs(calcs)
}

func fixed(color string) dashboard.DynamicConfigValue {
	return dashboard.DynamicConfigValue{Id: "color", Value: map[string]any{"mode": "fixed", "fixedColor": color}}
}

// invisible hides a line that still takes part in the axis. One that is hidden as such does not.
func invisible() []dashboard.DynamicConfigValue {
	return []dashboard.DynamicConfigValue{
		fixed("transparent"),
		{Id: "custom.lineWidth", Value: 0},
		{Id: "custom.showPoints", Value: "never"},
		{Id: "custom.hideFrom", Value: map[string]bool{"legend": true, "tooltip": true, "viz": false}},
	}
}

// headings of label columns.
func headings() map[string]string {
	return map[string]string{
		"k8s_namespace_name": "Namespace", "kn_service_name": "Service", "kn_revision_name": "Revision",
		"environment": "Environment", "gate": "Gate", "metric": "Metric", "verdict": "Verdict", "figure": "Figure",
		"reason": "Reason",
	}
}

// columns returns a table of the current values of several queries, with one line for each set of
// labels.
func columns(p dashboards.Panel, id uint32) *table.PanelBuilder {
	b := table.NewPanelBuilder().
		Id(id).Title(p.Title).Description(linked(p.Description)).Datasource(prometheusSource()).
		Span(uint32(p.Width)).Height(height(p)). //nolint:gosec // at most 24
		// Ten columns fit beside each other.
		Unit("short").MinWidth(90).NoValue(p.Empty).
		// A cell without a value is not a panel without data.
		OverrideByFieldType("number", []dashboard.DynamicConfigValue{{Id: "noValue", Value: "–"}}).
		OverrideByFieldType("string", []dashboard.DynamicConfigValue{{Id: "noValue", Value: "–"}})
	if p.To != "" {
		link := "/d/" + p.To + "?var-namespace=${__data.fields.Namespace}&var-service=${__data.fields.Service}&${__url_time_range}"
		b.OverrideByName(
			"Service",
			[]dashboard.DynamicConfigValue{
				{Id: "links", Value: []map[string]any{{"title": "The Service's canary", "url": link}}},
			},
		)
	}
	names, hidden, order := headings(), map[string]bool{
		"Time": true,
	}, map[string]int{
		"k8s_namespace_name": 0,
		"kn_service_name":    1,
		"environment":        2,
		"kn_revision_name":   2,
		"gate":               3,
		"metric":             4,
		"verdict":            5,
		"figure":             6,
		"reason":             7,
	}
	for i, q := range p.Queries {
		b.WithTarget(query(q, i).Instant().Format(prometheus.PromQueryFormatTable))
		// Grafana names the values differently if a panel has only one query.
		value := "Value #" + refID(i)
		if len(p.Queries) == 1 {
			value = "Value"
		}
		order[value] = i + 10
		if q.Column == "" {
			hidden[value] = true
			continue
		}
		names[value] = q.Column
		// Without decimals, Grafana shows three digits, as the plugin does.
		shown := []dashboard.DynamicConfigValue{{Id: "unit", Value: q.Unit}}
		if q.Unit == "short" {
			shown = append(shown, dashboard.DynamicConfigValue{Id: "decimals", Value: 0})
		}
		b.OverrideByName(q.Column, shown)
	}
	return b.
		WithTransformation(dashboard.DataTransformerConfig{Id: "merge", Options: map[string]any{}}).
		WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
			"excludeByName": hidden, "renameByName": names, "indexByName": order,
		}})
}

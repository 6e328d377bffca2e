// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/knative-cdevents/knative-cdevents/dashboards"
)

func ptr[T any](v T) *T { return &v }

// prometheusSource is the data source that the reader has selected.
func prometheusSource() common.DataSourceRef {
	return common.DataSourceRef{Type: ptr("prometheus"), Uid: ptr("${datasource}")}
}

// tags find our dashboards among others.
var tags = []string{"knative", "cdevents"}

// render returns the JSON of one dashboard.
func render(d dashboards.Dashboard) ([]byte, error) {
	b := dashboard.NewDashboardBuilder(d.Title).
		Uid(d.UID).
		Description(d.Description).
		Tags(tags).
		Timezone("browser").
		Time("now-1h", "now").
		Refresh("30s").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Readonly().
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").
			Label("Data source").Description("The Prometheus that scrapes the controller.").Type("prometheus"))
	for _, v := range d.Variables {
		b.WithVariable(variable(v))
	}
	// To the other dashboards, with the same selections.
	b.Link(dashboard.NewDashboardLinkBuilder("Knative CDEvents").Type(dashboard.DashboardLinkTypeDashboards).
		Tags(tags).AsDropdown(false).IncludeVars(true).KeepTime(true))
	id := uint32(0)
	for _, row := range d.Rows {
		id++
		b.WithRow(dashboard.NewRowBuilder(row.Title).Id(id))
		for _, p := range row.Panels {
			id++
			b.WithPanel(panel(p, id))
		}
	}
	built, err := b.Build()
	if err != nil {
		return nil, fmt.Errorf("building: %w", err)
	}
	content, err := json.MarshalIndent(annotated{built, annotations(d.Annotations)}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	return append(content, '\n'), nil
}

// annotated is a dashboard with annotations as Grafana's Prometheus data source reads them. The SDK's type has no text.
type annotated struct {
	dashboard.Dashboard
	Annotations marks `json:"annotations"`
}

type marks struct {
	List []mark `json:"list"`
}

type mark struct {
	Name        string               `json:"name"`
	Datasource  common.DataSourceRef `json:"datasource"`
	Enable      bool                 `json:"enable"`
	IconColor   string               `json:"iconColor"`
	Expr        string               `json:"expr"`
	TitleFormat string               `json:"titleFormat"`
	TextFormat  string               `json:"textFormat"`
}

func annotations(all []dashboards.Annotation) marks {
	m := marks{List: []mark{}}
	for _, a := range all {
		m.List = append(m.List, mark{
			Name: a.Name, Datasource: prometheusSource(), Enable: true, IconColor: a.Color, Expr: a.Expr, TitleFormat: a.Name,
			TextFormat: a.Text,
		})
	}
	return m
}

// variable reloads when the time range changes: Revisions come and go.
func variable(v dashboards.Variable) *dashboard.QueryVariableBuilder {
	query := fmt.Sprintf("label_values(%s, %s)", v.Series, v.Label)
	b := dashboard.NewQueryVariableBuilder(v.Name).
		Label(v.Title).
		Datasource(prometheusSource()).
		Query(dashboard.StringOrMap{String: &query}).
		Definition(query).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortNaturalAsc)
	if v.Description != "" {
		b.Description(v.Description)
	}
	if v.Many {
		all := dashboards.Everything
		if v.Optional {
			all = dashboards.Anything
		}
		b.Multi(true).IncludeAll(true).AllValue(all).Current(dashboard.VariableOption{
			Selected: ptr(true),
			Text:     dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
			Value:    dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
		})
	}
	return b
}

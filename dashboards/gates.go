// SPDX-License-Identifier: Apache-2.0

package dashboards

const (
	ofGate = `gate=~"$gate"`
	byGate = "gate"
	// noGate is why there is no data of gates: their series end an hour after a run.
	noGate = "no gate has judged this Service in the last hour"
)

// judged returns a metric of the selected gates.
func judged(metric string, matchers ...string) string {
	return series(metric, append([]string{ofNamespace, ofService, ofGate}, matchers...)...)
}

// verdicts and arms have the same colors in all panels.
func verdicts() []Color {
	return []Color{
		{" Pass( |$)", "green"},
		{" Warn( |$)", "yellow"},
		{" Fail( |$)", "red"},
		{" Inconclusive( |$)", "orange"},
		{" Error( |$)", "dark-red"},
		{" Superseded( |$)", "purple"},
		{" Running( |$)", "blue"},
	}
}

// kinds are the names that metrics of gates have unless the user gives them others.
func kinds() []Color {
	return []Color{
		{" ErrorRate( |$)", "red"},
		{" EntryErrors( |$)", "orange"},
		{" ClientErrors( |$)", "yellow"},
		{" SlowRequests( |$)", "blue"},
		{" SlowerAnywhere( |$)", "purple"},
	}
}

// gates shows how gates judge the canaries of a Service, and why they do not.
func gates() Dashboard {
	const known = "gate_verdict"
	return Dashboard{
		File:        "gates.json",
		UID:         "knative-cdevents-gates",
		Title:       "Gates",
		Description: "The verdicts of canary gates, the evidence and the requests that they had and needed, and why they do not decide.",
		Variables: append(
			scraped("cdevents_leading_ratio"),
			Variable{Name: "namespace", Title: "Namespace", Series: series(known), Label: "k8s_namespace_name", Empty: noGate},
			Variable{
				Name:   "service",
				Title:  "Service",
				Series: series(known, ofNamespace),
				Label:  "kn_service_name",
				Empty:  noGate,
			},
			Variable{
				Name:        "gate",
				Title:       "Gate",
				Series:      series(known, ofNamespace, ofService),
				Label:       "gate",
				Many:        true,
				Optional:    true,
				Empty:       noGate,
				Description: "CanaryGates. A gate that is embedded in a CustomRun has no name.",
			},
		),
		Annotations: []Annotation{routeChanged(), gateEnded(ofNamespace, ofService)},
		Rows: []Row{
			{Title: "Verdicts", Panels: []Panel{states(), runs(), outcomes()}},
			{
				Title:  "Evidence",
				Panels: []Panel{evidence("fail", "Evidence for a Fail"), evidence("pass", "Evidence for a Pass"), badRequests()},
			},
			{Title: "Requests", Panels: []Panel{samples(), gateShare(), runTime()}},
			{Title: "Why a gate does not decide", Panels: []Panel{unmeasured(), moves()}},
		},
	}
}

func states() Panel {
	return Panel{
		Title:       "Verdicts over time",
		Unit:        count,
		Width:       16,
		Kind:        States,
		Empty:       noGate,
		Colors:      verdicts(),
		Description: "The run in progress, or else the verdict of the last run, for an hour. With several gates, one band for each.",
		Queries: []Query{
			{Expr: largest("gate, verdict", judged("gate_verdict")) + " == 1", Legend: "{{gate}} {{verdict}}"},
		},
	}
}

func runs() Panel {
	return Panel{
		Title: "Finished runs", Unit: count, Width: 8, Kind: Bars, Empty: noGate, Colors: verdicts(),
		Description: "In each interval. A verdict that a gate gives for the first time is counted two minutes late.",
		Queries:     []Query{{Expr: added("gate, verdict", judged("gate_runs_total")), Legend: "{{gate}} {{verdict}}"}},
	}
}

func outcomes() Panel {
	const by = "gate, verdict, reason"
	return Panel{
		Title:       "Verdicts and their reasons",
		Kind:        Table,
		Width:       24,
		Empty:       "no run has ended in this time",
		Description: "Runs that ended in the selected time range, by verdict and most important reason. docs/gates.md says what each reason means, and what to do.",
		Queries:     []Query{{Column: "Runs", Unit: count, Expr: increase(by, judged("gate_runs_total")) + " > 0.5"}},
	}
}

func evidence(side, title string) Panel {
	const by = "gate, metric"
	return Panel{
		Title:       title,
		Unit:        count,
		Width:       12,
		Orders:      true,
		Empty:       noGate,
		Colors:      kinds(),
		Description: "Solid: the e-value that a gate has reached. Dashed: the e-value that decides. In a sharded Service, the shards decide about handled requests, and these lines are only a guide.",
		Queries: []Query{
			{Expr: largest(by, judged("gate_evalue", `side="`+side+`"`)), Legend: "{{gate}} {{metric}}"},
			{
				Expr:   largest(by, judged("gate_evalue_required", `side="`+side+`"`)),
				Legend: "{{gate}} {{metric}} required",
				Dashed: true,
			},
		},
	}
}

func badRequests() Panel {
	const by = "gate, metric"
	return Panel{
		Title:       "Bad requests",
		Unit:        percent,
		Width:       24,
		Empty:       noGate,
		Colors:      kinds(),
		Description: "The ratio of bad requests that each metric of a gate has found since the run began. Solid: the canary. Dashed: the baseline.",
		Queries: []Query{
			{Expr: largest(by, judged("gate_metric_value", `arm="canary"`)), Legend: "{{gate}} {{metric}} canary"},
			{
				Expr:   largest(by, judged("gate_metric_value", `arm="baseline"`)),
				Legend: "{{gate}} {{metric}} baseline",
				Dashed: true,
			},
		},
	}
}

func samples() Panel {
	const by = "gate, arm"
	return Panel{
		Title:       "Requests had and needed",
		Unit:        count,
		Width:       8,
		Empty:       noGate,
		Description: "Solid: finished requests that were judged. Dashed: the least that a verdict by comparison needs, for each side.",
		Colors:      []Color{{" canary( |$)", "orange"}, {" baseline( |$)", "blue"}},
		Queries: []Query{
			{Expr: largest(by, judged("gate_samples")), Legend: "{{gate}} {{arm}}"},
			{Expr: largest(by, judged("gate_samples_required")), Legend: "{{gate}} {{arm}} needed", Dashed: true},
		},
	}
}

func gateShare() Panel {
	route := largest(byRevision, series("canary_traffic_share_ratio", ofNamespace, ofService))
	return Panel{
		Title:       "The canary's share",
		Unit:        percent,
		Width:       8,
		Empty:       noGate,
		Description: "Solid: the share of the requests that the canary handled over the judged time. Dashed: what the Route gives to Revisions that share the traffic. If they are too far apart, a Pass becomes Inconclusive.",
		Queries: []Query{
			{Expr: largest(byGate, judged("gate_handled_share_ratio")), Legend: "{{gate}}: handled"},
			{Expr: route + " > 0 < 1", Legend: revision + " required", Dashed: true},
		},
	}
}

func runTime() Panel {
	return Panel{
		Title:       "Duration of the run",
		Unit:        clock,
		Width:       8,
		Empty:       noGate,
		Description: "How long the run in progress has taken so far, or how long the last one took. It ends at its timeout at the latest.",
		Queries:     []Query{{Expr: largest(byGate, judged("gate_duration_seconds")), Legend: "{{gate}}: duration"}},
	}
}

func unmeasured() Panel {
	return Panel{
		Title:       "What is not known, and why",
		Kind:        Table,
		Width:       12,
		Empty:       "Nothing is missing",
		Description: "Figures of the Service without data. A gate that needs one of them does not pass.",
		Queries: []Query{
			{Expr: largest(byRevision+", figure, reason", series("canary_no_data", ofNamespace, ofService))},
		},
	}
}

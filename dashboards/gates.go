// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"fmt"
	"strings"
)

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

// states are the verdicts as they are shown, by numbers that panels of states need: the larger of two wins while, for
// a moment, two leaders export one.
func states() []Value {
	return []Value{
		{1, "Running", "blue"},
		{2, "Pass", "green"},
		{3, "Warn", "yellow"},
		{4, "Fail", "red"},
		{5, "Inconclusive", "orange"},
		{6, "Superseded", "purple"},
		{7, "Error", "dark-red"},
	}
}

// verdicts have the same colors in all panels.
func verdicts() []Color {
	var out []Color
	for _, s := range states() {
		out = append(out, Color{" " + s.Text + "( |$)", s.Color})
	}
	return out
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
			{Title: "Verdicts", Panels: []Panel{verdictsOverTime(), runs(), outcomes(), findings()}},
			{
				Title: "Evidence",
				Panels: []Panel{
					evidence("fail", "Evidence for a Fail, without the test over shards"),
					overShards(),
					evidence("pass", "Evidence for a Pass"),
					badRequests(),
				},
			},
			{Title: "Requests", Panels: []Panel{samples(), gateShare(), runTime()}},
			{Title: "Why a gate does not decide", Panels: []Panel{unmeasured(), moves()}},
		},
	}
}

func verdictsOverTime() Panel {
	var each []string
	for _, s := range states() {
		each = append(each, fmt.Sprintf("%d * (%s == 1)", s.Number, judged("gate_verdict", `verdict="`+s.Text+`"`)))
	}
	return Panel{
		Title:       "Verdicts over time",
		Unit:        count,
		Width:       24,
		Height:      5,
		Kind:        States,
		Empty:       noGate,
		Values:      states(),
		Description: "The run in progress, or else the verdict of the last run, for an hour. A row for each gate.",
		Queries: []Query{{
			Expr: `label_replace(` + largest(byGate, strings.Join(each, " or ")) +
				`, "gate", "of a CustomRun", "gate", "")`,
			Legend: "{{gate}}",
		}},
	}
}

// runs has the verdicts that a gate has reached, and their zeros: the width of bars is the distance of two values.
func runs() Panel {
	const by = "gate, verdict"
	return Panel{
		Title: "Finished runs", Unit: count, Width: 8, Height: 6, Kind: Bars, Colors: verdicts(),
		Empty:       "no run has ended in this time",
		Description: "How many runs ended in each interval, by verdict.",
		Queries:     []Query{{Expr: added(by, judged("gate_runs_total")) + " and on (" + by + ") " + total(by, judged("gate_runs_total")) + " > 0", Legend: "{{gate}} {{verdict}}"}},
	}
}

func outcomes() Panel {
	const by = "gate, verdict, reason"
	return Panel{
		Title:       "Verdicts and their reasons",
		Kind:        Table,
		Width:       16,
		Height:      6,
		Empty:       "no run has ended in this time",
		Description: "Runs that ended in the selected time range, by verdict and most important reason. docs/gates.md says what each reason means, and what to do. What happened before Prometheus knew the controller counts as if it had happened in this time.",
		Queries:     []Query{{Column: "Runs", Unit: count, Expr: counted(by, judged("gate_run_reasons_total")) + " > 0"}},
	}
}

// findings says which of the tests has decided: no line of evidence shows that for a test over shards, or for limits.
func findings() Panel {
	const by = "gate, metric"
	side := func(metric, label, value string) string { return largest(by, judged(metric, label+`="`+value+`"`)) }
	return Panel{
		Title:       "What the last run has found",
		Kind:        Table,
		Width:       24,
		Height:      6,
		Empty:       noGate,
		Description: "The verdict of each metric of the run in progress, or else of the last run, and the test that has decided: an e-value that has reached its limit, or the comparison over shards, which has a p-value instead. Restarts, hanging requests and the canary's share are of the whole run, so they are in the table of verdicts and their reasons.",
		Queries: []Query{
			{Expr: largest(by+", verdict, reason", judged("gate_metric_verdict"))},
			{Column: "Canary bad", Unit: percent, Expr: side("gate_metric_value", "arm", "canary")},
			{Column: "Baseline bad", Unit: percent, Expr: side("gate_metric_value", "arm", "baseline")},
			{Column: "E-value", Unit: number, Expr: side("gate_evalue", "side", "fail")},
			{Column: "Fails at", Unit: number, Expr: side("gate_evalue_required", "side", "fail")},
			{Column: "p over shards", Unit: number, Expr: largest(by, judged("gate_p_value"))},
		},
	}
}

// leastEvidence is the least e-value that is drawn: one may be 0, which an axis by orders of magnitude does not have.
const leastEvidence = 0.01

func evidence(side, title string) Panel {
	const by = "gate, metric"
	return Panel{
		Title:       title,
		Unit:        number,
		Width:       12,
		Least:       leastEvidence,
		Empty:       noGate,
		Colors:      kinds(),
		Description: "Solid: the e-value that a gate has reached. Dashed: the e-value that decides. What is below 0.01 is drawn there. In a sharded Service, handled requests are compared over the shards: see the panel of p-values.",
		Queries: []Query{
			{
				Expr:   fmt.Sprintf("clamp_min(%s, %g)", largest(by, judged("gate_evalue", `side="`+side+`"`)), leastEvidence),
				Legend: "{{gate}} {{metric}}",
			},
			{
				Expr:   largest(by, judged("gate_evalue_required", `side="`+side+`"`)),
				Legend: "{{gate}} {{metric}} required",
				Dashed: true,
			},
		},
	}
}

func overShards() Panel {
	return Panel{
		Title:       "Evidence for a Fail: the test over shards",
		Unit:        scientific,
		Width:       12,
		Max:         1,
		Least:       1e-6,
		Empty:       "no comparison over shards in this time: the Service is not sharded, or none was due",
		Colors:      kinds(),
		Description: "The p-value of the last comparison of the canary's shards with the baseline's: how likely so great a difference would be by chance. Small is bad. There are at most five comparisons in a run, and what each must reach depends on how many there have been; docs/judging.md says why. What is below 1e-6 is drawn there.",
		Queries:     []Query{{Expr: "clamp_min(" + largest("gate, metric", judged("gate_p_value")) + ", 1e-6)", Legend: "{{gate}} {{metric}}"}},
	}
}

func badRequests() Panel {
	const by = "gate, metric"
	return Panel{
		Title:       "Bad requests",
		Unit:        percent,
		Width:       12,
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

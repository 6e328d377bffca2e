// SPDX-License-Identifier: Apache-2.0

package dashboards

const (
	ofNamespaces = `k8s_namespace_name=~"$namespace"`
	byService    = "k8s_namespace_name, kn_service_name"
	ofServices   = "{{k8s_namespace_name}}/{{kn_service_name}}"
)

// fleet shows all Services: what is rolling out, what is held up, what was rolled back, and what was not told yet.
func fleet() Dashboard {
	const measured = "canary_pod_restarts_total"
	return Dashboard{
		File:        "fleet.json",
		UID:         "knative-cdevents-fleet",
		Title:       "Fleet",
		Description: "All Knative Services: which are rolling out, which are held up, what was rolled back, and which events their receivers do not have yet.",
		Variables: append(scraped(measured),
			Variable{Name: "namespace", Title: "Namespace", Series: series(measured), Label: "k8s_namespace_name", Many: true}),
		Annotations: []Annotation{gateEnded(ofNamespaces)},
		Rows: []Row{
			{Title: "Services", Panels: []Panel{fleetTable()}},
			{Title: "Rollouts", Panels: []Panel{rollouts(), told()}},
			{Title: "Health, by the Revision that handled the requests", Panels: []Panel{fleetErrors(), fleetExcess()}},
			{Title: "What is not told, and what is not known", Panels: []Panel{fleetPending(), fleetOldest(), fleetUnknown()}},
		},
	}
}

// everywhere returns a metric of the Services in the selected namespaces.
func everywhere(metric string, matchers ...string) string {
	return series(metric, append([]string{ofNamespaces}, matchers...)...)
}

// split counts the Revisions that share the traffic of a Service.
func split() string {
	return "count by (" + byService + ") (" +
		largest(byService+", "+byRevision, everywhere("canary_traffic_share_ratio")) + " > 0)"
}

// undecided are Services whose last run ended without a useful verdict.
func undecided() string {
	return largest(byService, everywhere("gate_verdict", `verdict=~"Inconclusive|Error"`)) + " == 1"
}

// misplaced are Services whose shards are not where the plan wants them.
func misplaced() string {
	return largest(byService, everywhere("canary_placement_converged")) + " == 0"
}

// errorShare is the part of the requests of each Service that failed.
func errorShare() string {
	return ratio(
		rate(byService, everywhere(handledTotal, `outcome=~"error|timeout"`), short),
		rate(byService, everywhere(handledTotal, `outcome!="unknown"`), short),
	)
}

func fleetTable() Panel {
	return Panel{
		Title:       "Services",
		Kind:        Table,
		Width:       24,
		To:          "knative-cdevents-canary",
		Empty:       "no Service is measured",
		Description: "Revisions: how many share the traffic; more than one is a rollout. Canary: the smallest share. Last verdict: of its gates, within an hour. A Service's name leads to the dashboard of its canary.",
		Queries: []Query{
			{Column: "Revisions", Unit: count, Expr: split()},
			{Column: "Canary", Unit: percent, Expr: "min by (" + byService + ") (" +
				largest(byService+", "+byRevision, everywhere("canary_traffic_share_ratio")) + " > 0 < 1)"},
			{Column: "Requests", Unit: rps, Expr: rate(byService, everywhere(handledTotal), short)},
			{Column: "Errors", Unit: percent, Expr: errorShare()},
			{Column: "Restarts", Unit: count, Expr: increase(byService, everywhere(restartsTotal))},
			{Column: "Not known", Unit: count, Expr: "count by (" + byService + ") (" +
				largest(byService+", "+byRevision+", figure", everywhere("canary_no_data")) + ")"},
			{Expr: largest(byService+", verdict", everywhere("gate_verdict")) + " == 1"},
		},
	}
}

func rollouts() Panel {
	all := "count(" + largest(byService, everywhere("canary_traffic_share_ratio")) + ")"
	or := func(some string) string { return "count(" + some + ") or 0 * " + all }
	return Panel{
		Title:       "Services by state",
		Unit:        count,
		Width:       12,
		Description: "Rolling out: several Revisions share the traffic. Without a verdict: the last run of a gate was Inconclusive, or an Error, so whoever asked it waits. Shards misplaced: a stateful cluster does not follow the plan of its Route yet.",
		Colors: []Color{
			{"^with traffic$", "green"},
			{"^rolling out$", "blue"},
			{"^without a verdict$", "orange"},
			{"^shards misplaced$", "purple"},
		},
		Queries: []Query{
			{Expr: all, Legend: "with traffic"},
			{Expr: or(split() + " > 1"), Legend: "rolling out"},
			{Expr: or(undecided()), Legend: "without a verdict"},
			{Expr: or(misplaced()), Legend: "shards misplaced"},
		},
	}
}

// lifecycleTypes are the types of events of releases. Each source counts them.
const lifecycleTypes = `type=~"dev\\.cdevents\\.(service\\.(deployed|upgraded|rolledback|removed)|incident\\.(detected|resolved))\\..+"`

func told() Panel {
	return Panel{
		Title:       "Releases, rollbacks and incidents",
		Unit:        count,
		Width:       12,
		Kind:        Bars,
		Empty:       "none yet",
		Description: "Events that sinks accepted in each interval, of all namespaces. An event that reaches two sinks in the same interval counts once, and again if one of them accepts it later.",
		Colors: []Color{
			{`\.deployed\.`, "blue"},
			{`\.upgraded\.`, "green"},
			{`\.rolledback\.`, "orange"},
			{`\.removed\.`, "purple"},
			{`\.detected\.`, "red"},
			{`\.resolved\.`, "super-light-green"},
		},
		Queries: []Query{
			{
				// Each source counts its events. Those of the source that sent most are closest to what happened.
				Expr: "max by (type) (" + added(
					"source, type",
					series("cdevents_delivered_total", lifecycleTypes),
				) + ")",
				Legend: "{{type}}",
			},
		},
	}
}

func fleetErrors() Panel {
	return Panel{
		Title: "Errors, the ten highest", Unit: percent, Width: 12,
		Description: "Share of errors and timeouts among the requests that a Service handled.",
		Queries:     []Query{{Expr: "topk(10, " + errorShare() + ")", Legend: ofServices}},
	}
}

func fleetExcess() Panel {
	by := byService + ", " + byRevision
	excess := largest(by, everywhere("canary_handled_share_ratio")) + " - " +
		largest(by, everywhere("canary_traffic_share_ratio"))
	return Panel{
		Title:       "Handled beyond the Route, the ten highest",
		Unit:        percent,
		Width:       12,
		Description: "How much more of the requests a Revision handles than its Route gives it. A canary that handles more is a greater risk than the percentage says.",
		Queries:     []Query{{Expr: "topk(10, max by (" + byService + ") (" + excess + "))", Legend: ofServices}},
	}
}

func fleetPending() Panel {
	p := pending()
	p.Description, p.Empty = "Events that sinks have not accepted yet, by source. The dashboard about delivery says why.", noSource
	return p
}

func fleetOldest() Panel {
	p := oldest()
	p.Empty = noSource
	return p
}

// noSource is why there is no data of pending events.
const noSource = "no source exists"

func fleetUnknown() Panel {
	return Panel{
		Title:       "Figures that are not known",
		Unit:        count,
		Width:       8,
		Kind:        Bars,
		Empty:       "Nothing is missing",
		Description: "How many figures of Services are missing, by reason. docs/canary.md says what each reason means.",
		Queries: []Query{{Expr: "count by (reason) (" +
			largest(byService+", "+byRevision+", figure, reason", everywhere("canary_no_data")) + ")", Legend: "{{reason}}"}},
	}
}

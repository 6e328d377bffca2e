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
			{Title: "Rollouts", Panels: []Panel{rollouts(), released()}},
			{Title: "Health, by the Revision that handled the requests", Panels: []Panel{fleetErrors(), fleetDistance()}},
			{Title: "What is not told, and what is not known", Panels: []Panel{fleetPending(), oldest(), fleetUnknown()}},
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
		Height:      7,
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
			// Verdicts are exported for an hour. A Service that is gone since is no row.
			{Expr: largest(byService+", verdict", everywhere("gate_verdict")) + " == 1 and on (" + byService + ") " +
				largest(byService, everywhere("canary_traffic_share_ratio"))},
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
		Empty:       "no Service is measured",
		Description: "Measured: the Route is known, with or without requests. Rolling out: several Revisions share the traffic. Without a verdict: the last run of a gate was Inconclusive, or an Error, so whoever asked it waits. Shards misplaced: a stateful cluster does not follow the plan of its Route yet.",
		Colors: []Color{
			{"^measured$", "green"},
			{"^rolling out$", "blue"},
			{"^without a verdict$", "orange"},
			{"^shards misplaced$", "purple"},
		},
		Queries: []Query{
			{Expr: all, Legend: "measured"},
			{Expr: or(split() + " > 1"), Legend: "rolling out"},
			{Expr: or(undecided()), Legend: "without a verdict"},
			{Expr: or(misplaced()), Legend: "shards misplaced"},
		},
	}
}

// released counts what happened, as the ledger has stored it: an event that several sinks accept is one release.
func released() Panel {
	return Panel{
		Title:       "Releases, and what failed",
		Unit:        count,
		Width:       12,
		Kind:        Bars,
		Empty:       "no deployment was seen",
		Description: "In each interval. Released: a Revision got all traffic. Canary stopped: a Revision was withdrawn before. Rolled back: a Revision had all traffic, and was rolled back or followed by an outage. docs/dora.md defines them.",
		Colors: []Color{
			{"^released$", "green"},
			{"^canary stopped$", "orange"},
			{"^rolled back or down$", "red"},
		},
		Queries: []Query{
			{Expr: each("", doraTotal, ofNamespaces, `outcome="completed"`), Legend: "released"},
			{Expr: each("", doraTotal, ofNamespaces, `outcome="stopped"`), Legend: "canary stopped"},
			{Expr: each("", failuresTotal, ofNamespaces, `outcome="completed"`), Legend: "rolled back or down"},
		},
	}
}

func fleetErrors() Panel {
	return Panel{
		Title: "Errors, the ten highest", Unit: percent, Width: 12, Empty: "no requests in this time",
		Description: "Share of errors and timeouts among the requests that a Service handled.",
		Queries:     []Query{{Expr: "topk(10, " + errorShare() + ")", Legend: ofServices}},
	}
}

// fleetDistance compares what is handled with the Route where the Route has been the same for the whole window: right
// after a step, the requests of the window belong to the split before. Without a split, there is nothing to compare.
func fleetDistance() Panel {
	const by = byService + ", " + byRevision
	route := everywhere("canary_traffic_share_ratio")
	requests := everywhere(handledTotal)
	handled := rate(by, requests, short) + " / on (" + byService + ") group_left () (" + rate(byService, requests, short) + " >= 1)"
	changed := largest(by, "max_over_time("+route+"["+short+"])") + " != " + largest(by, "min_over_time("+route+"["+short+"])")
	split := "(" + largest(by, route) + " > 0 < 1) unless on (" + byService + ") (" + changed + ")"
	return Panel{
		Title:       "Handled share, how far from the Route, the ten furthest",
		Unit:        percent,
		Width:       12,
		Empty:       "no Service with a request a second splits its traffic in this time",
		Description: "How many percentage points the share that a Revision handles differs from what its Route gives it, for the Revision of a Service where they differ most. Only while a split is in force, and the Service handles a request a second or more. A canary that handles more is a greater risk than its percentage says.",
		Queries: []Query{{
			Expr:   "topk(10, max by (" + byService + ") (abs(" + handled + " - (" + split + "))))",
			Legend: ofServices,
		}},
	}
}

func fleetPending() Panel {
	p := pending()
	p.Description = "Events that sinks have not accepted yet, by source. The dashboard about delivery says why."
	return p
}

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

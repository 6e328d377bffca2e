// SPDX-License-Identifier: Apache-2.0

package dashboards

import "strings"

const (
	ofNamespace = `k8s_namespace_name="$namespace"`
	ofService   = `kn_service_name="$service"`
	ofRevision  = `kn_revision_name=~"$revision"`
	byRevision  = "kn_revision_name"
	revision    = "{{kn_revision_name}}"
)

// of returns a metric of the selected Revisions.
func of(metric string, matchers ...string) string {
	return series(metric, append([]string{ofNamespace, ofService, ofRevision}, matchers...)...)
}

// canary is the view that no ingress and no queue-proxy has: by the Revision that handled the
// request.
func canary() Dashboard {
	// Restarts are exported for every measured Revision, even if nothing else is known yet.
	const measured = "canary_pod_restarts_total"
	return Dashboard{
		File:  "canary.json",
		UID:   "knative-cdevents-canary",
		Title: "Canary, after the sharding",
		Description: "What each Revision of a Knative Service handled, wherever the requests entered. " +
			"In a stateful cluster, the pod that receives a request passes it on to the pod that holds the shard, so figures by entry blame the wrong Revision.",
		Variables: append(scraped(measured), []Variable{
			{Name: "namespace", Title: "Namespace", Series: series(measured), Label: "k8s_namespace_name"},
			{Name: "service", Title: "Service", Series: series(measured, ofNamespace), Label: "kn_service_name"},
			{
				Name: "revision", Title: "Revision", Series: series(measured, ofNamespace, ofService), Label: byRevision,
				Many:        true,
				Description: "Shares are always those of the whole Service, no matter which Revisions are selected.",
			},
		}...),
		Annotations: []Annotation{routeChanged(), gateEnded(ofNamespace, ofService)},
		Rows: []Row{
			{Title: "Where requests go", Panels: []Panel{sides(), shares(), handledRate(), enteredRate(), matrix()}},
			{
				Title:  "Errors by the Revision of entry, and by the Revision that handled the request",
				Panels: []Panel{entryErrors(), handledErrors(), failures()},
			},
			{
				Title:  "Latency, by the Revision that handled the request",
				Panels: []Panel{latency(.5, "p50"), latency(.95, "p95"), latency(.99, "p99")},
			},
			{Title: "Problems that request counters do not show", Panels: []Panel{unaccounted(), restarts()}},
			{Title: "The stateful cluster", Panels: []Panel{members(), shards()}},
			{Title: "Placement: where the plan for the Route wants the shards", Panels: []Panel{placements(), moves()}},
			{Title: "Data quality", Panels: []Panel{missing(), age(), scrapes(), rejected()}},
		},
	}
}

// routeChanged marks where a Revision gets more of the traffic: one mark for a change, not one for each of its
// Revisions.
func routeChanged() Annotation {
	share := largest(byRevision, series("canary_traffic_share_ratio", ofNamespace, ofService))
	before := largest(byRevision, series("canary_traffic_share_ratio", ofNamespace, ofService)+" offset "+step)
	return Annotation{Name: "Traffic", Expr: "(" + share + " > 0 unless " + share + " <= " + before +
		") and on () group(" + before + ")", Text: revision + " gets more of the traffic", Color: "blue"}
}

// gateEnded marks the verdicts of gates.
func gateEnded(matchers ...string) Annotation {
	const by = "kn_service_name, gate, verdict"
	ended := series("gate_verdict", append([]string{`verdict!="Running"`}, matchers...)...)
	return Annotation{
		Name: "Verdicts", Color: "orange", Text: "gate {{gate}} of {{kn_service_name}}: {{verdict}}",
		Expr: largest(by, ended) + " == 1 unless " + largest(by, ended+" offset "+step) + " == 1",
	}
}

// handledShare is the part of the requests of the Service that each of the selected Revisions has handled within a
// window. It does not reach back further: a canary that was stopped has no share any more.
func handledShare(window string) string {
	whole := "sum(rate(" + series(handledTotal, ofNamespace, ofService) + "[" + window + "]))"
	return rate(byRevision, of(handledTotal), window) + " / on () group_left () (" + whole + " > 0)"
}

// noRequests is why there are no figures of requests.
const noRequests = "no requests of this Service in this time"

const notStateful = "no data: this is not a stateful cluster, or its runtime does not report it"

func sides() Panel {
	return Panel{
		Title:       "The Revisions side by side",
		Kind:        Table,
		Width:       24,
		Height:      6,
		Empty:       "no Revision of this Service is measured",
		Description: "Shares are those of the last moments of the selected time range; all other figures are over all of it. Excess is the share that a Revision handles beyond its share in the Route. Without requests, there is no share. Errors by entry are what queue-proxy alone would report.",
		Queries: []Query{
			{Column: "Required", Unit: percent, Expr: largest(byRevision, of("canary_traffic_share_ratio"))},
			{Column: "Handled", Unit: percent, Expr: handledShare(short)},
			{Column: "Excess", Unit: percent, Expr: handledShare(short) + " - " +
				largest(byRevision, of("canary_traffic_share_ratio"))},
			{Column: "Requests", Unit: count, Expr: increase(byRevision, of(handledTotal))},
			{Column: "Errors by entry", Unit: percent, Expr: entryErrorRatio(shown)},
			{Column: "Errors handled", Unit: percent, Expr: handledErrorRatio(shown)},
			{Column: "p95", Unit: seconds, Expr: quantile(.95, byRevision, of(durations), shown)},
			{
				Column: "Unaccounted",
				Unit:   count,
				Expr:   largest(byRevision, of("canary_unaccounted_requests", `stage="handling"`)),
			},
			{Column: "Restarts", Unit: count, Expr: increase(byRevision, of(restartsTotal))},
		},
	}
}

const (
	percent = "percentunit"
	rps     = "reqps"
	seconds = "s"
	clock   = "dthms"
	count   = "short"
	// number has fractions, unlike a count.
	number = "none"
	// scientific is for what may be far below 1.
	scientific = "sci"

	entryTotal    = "canary_entry_requests_total"
	handledTotal  = "canary_handled_requests_total"
	durations     = "canary_handled_request_duration_seconds_bucket"
	restartsTotal = "canary_pod_restarts_total"
)

func shares() Panel {
	return Panel{
		Title:       "Required and real share",
		Unit:        percent,
		Width:       24,
		Max:         1,
		Empty:       "no Route of this Service is known in this time",
		Description: "Dashed: the share of the requests that the current Route gives a Revision. Solid: the share that it handled, by the rates of the same moment; there is a gap without requests. They differ if shards, and not the Route, decide which Revision handles a request.",
		Queries: []Query{
			{Expr: largest(byRevision, of("canary_traffic_share_ratio")), Legend: revision + " required", Dashed: true},
			{Expr: handledShare(short), Legend: revision + " handled"},
		},
	}
}

func handledRate() Panel {
	return Panel{
		Title: "Requests by the Revision that handled them", Unit: rps, Width: 12, Empty: noRequests,
		Description: "Finished requests per second, by the Revision whose pod handled them.",
		Queries: []Query{
			{Expr: rate(byRevision, of(handledTotal), short), Legend: revision},
			{
				Expr:   highest(rate(byRevision, of(handledTotal), short), rate(byRevision, of(entryTotal), short)),
				Legend: axis,
				Axis:   true,
			},
		},
	}
}

func enteredRate() Panel {
	return Panel{
		Title:       "Requests by the Revision where they entered",
		Unit:        rps,
		Width:       12,
		Empty:       "no requests in this time, or Knative Serving exports no request metrics",
		Description: "Requests per second, by the Revision whose queue-proxy received them. Same axis as the neighboring panel.",
		Queries: []Query{
			{Expr: rate(byRevision, of(entryTotal), short), Legend: revision},
			{
				Expr:   highest(rate(byRevision, of(handledTotal), short), rate(byRevision, of(entryTotal), short)),
				Legend: axis,
				Axis:   true,
			},
		},
	}
}

func matrix() Panel {
	by := "entry_revision_name, " + byRevision
	return Panel{
		Title: "Entered at one Revision, handled by another", Unit: rps, Width: 24, Kind: Bars,
		Empty:       "no data: the application does not report where a request entered",
		Description: "Finished requests per second, by the Revision where they entered and the Revision that handled them, in the color of the latter. Pale: handled where they entered.",
		Shades:      []Shade{{Names: `^(\S+) → \1$`, Percent: 15}},
		Queries: []Query{{
			Expr:   rate(by, of("canary_handled_requests_by_entry_total"), short),
			Legend: "{{entry_revision_name}} → " + revision,
		}},
	}
}

// axis is the legend of the query that sets an axis.
const axis = "axis"

// highest is the upper end of an axis for two views. The label keeps "or" from merging the two views of a Revision.
func highest(a, b string) string {
	return `max(` + a + ` or label_replace(` + b + `, "view", "other", "", ""))`
}

// entryErrorRatio ignores requests whose outcome queue-proxy cannot see. If there are no others,
// there is no ratio.
func entryErrorRatio(window string) string {
	return ratio(
		rate(byRevision, of(entryTotal, `code_class="5xx"`), window),
		rate(byRevision, of(entryTotal, `code_class!="unknown"`), window),
	)
}

func handledErrorRatio(window string) string {
	return ratio(
		rate(byRevision, of(handledTotal, `outcome=~"error|timeout"`), window),
		rate(byRevision, of(handledTotal, `outcome!="unknown"`), window),
	)
}

func entryErrors() Panel {
	return Panel{
		Title:       "Errors by entry: what queue-proxy alone would report",
		Unit:        percent,
		Width:       12,
		Empty:       "no requests in this time, or Knative Serving exports no request metrics",
		Description: "Share of 5xx among the requests that entered at a Revision, no matter which Revision failed. In a stateful cluster, this blames the Revision that passed a request on.",
		Queries: []Query{
			{Expr: entryErrorRatio(short), Legend: revision},
			{Expr: highest(entryErrorRatio(short), handledErrorRatio(short)), Legend: axis, Axis: true},
		},
	}
}

func handledErrors() Panel {
	return Panel{
		Title:       "Errors by the Revision that handled the request",
		Unit:        percent,
		Width:       12,
		Empty:       noRequests,
		Description: "Share of errors and timeouts among the requests that a Revision handled. Same axis as the neighboring panel. There are gaps if no requests were handled, or if the application does not report outcomes.",
		Queries: []Query{
			{Expr: handledErrorRatio(short), Legend: revision},
			{Expr: highest(entryErrorRatio(short), handledErrorRatio(short)), Legend: axis, Axis: true},
		},
	}
}

func failures() Panel {
	by := byRevision + ", outcome"
	return Panel{
		Title:       "Failed requests by outcome",
		Unit:        rps,
		Width:       24,
		Kind:        Bars,
		Empty:       noRequests,
		Description: "Handled requests per second that did not succeed. unknown: the application does not report the outcome.",
		Shades:      []Shade{{Names: " timeout$", Percent: 40}, {Names: " unknown$", Percent: 15}},
		Queries:     []Query{{Expr: rate(by, of(handledTotal, `outcome!="ok"`), short), Legend: revision + " {{outcome}}"}},
	}
}

func latency(q float64, name string) Panel {
	return Panel{
		Title:       name + " by the Revision that handled the request",
		Unit:        seconds,
		Width:       8,
		Empty:       "no requests in this time, or other buckets",
		Description: "How long it took to handle requests, interpolated within the fixed buckets. There is no data if the application uses other buckets.",
		Queries:     []Query{{Expr: quantile(q, byRevision, of(durations), short), Legend: revision}},
	}
}

func unaccounted() Panel {
	return Panel{
		Title:       "Unaccounted requests",
		Unit:        count,
		Width:       12,
		Empty:       notStateful,
		Description: "Requests that a Revision started but did not finish within the timeout, including those of terminated pods; and requests that entered the Service but were never started. Counted since the reporting replica began to measure.",
		Queries: []Query{
			{
				Expr:   largest(byRevision, of("canary_unaccounted_requests", `stage="handling"`)),
				Legend: revision + " started, not finished",
			},
			{
				Expr:   largest("kn_service_name", series("canary_unaccounted_requests", ofNamespace, ofService, `stage="entry"`)),
				Legend: "entered, never started",
			},
		},
	}
}

func restarts() Panel {
	return Panel{
		Title:       "Restarts of pods",
		Unit:        count,
		Width:       12,
		Kind:        Bars,
		Empty:       "no Revision of this Service is measured",
		Description: "Restarts of containers and failures of pods, by reason. Figures that a pod had not reported when it failed are lost.",
		Shades:      []Shade{{Names: " restarted$", Percent: 40}, {Names: " pod_failed$", Percent: 15}},
		Queries:     []Query{{Expr: added(byRevision+", reason", of(restartsTotal)), Legend: revision + " {{reason}}"}},
	}
}

func members() Panel {
	return Panel{
		Title: "Members of the cluster", Unit: count, Width: 12, Empty: notStateful,
		Description: "Pods of a Revision that are members of the stateful cluster, as reported by its runtime.",
		Queries:     []Query{{Expr: largest(byRevision, of("canary_cluster_members")), Legend: revision}},
	}
}

func shards() Panel {
	return Panel{
		Title:       "Shards",
		Unit:        count,
		Width:       12,
		Empty:       notStateful,
		Description: "Shards that the pods of a Revision hold, by entity type. While shards move, other pods handle their requests.",
		Queries: []Query{
			{Expr: largest(byRevision+", entity_type", of("canary_cluster_shards")), Legend: revision + " {{entity_type}}"},
		},
	}
}

const notPlanned = "no data: the Service does not ask for placement"

func placements() Panel {
	by := byRevision + ", entity_type"
	return Panel{
		Title:       "Required and real shards",
		Unit:        count,
		Width:       12,
		Empty:       notPlanned,
		Description: "Dashed: the shards that the plan for the current Route gives a Revision. Solid: those that its pods hold. They differ while shards move, and if the cluster does not follow the plan.",
		Queries: []Query{
			{
				Expr:   largest(by, of("canary_placement_target_shards")),
				Legend: revision + " {{entity_type}} required",
				Dashed: true,
			},
			{
				Expr:   largest(by, of("canary_cluster_shards")) + " and " + largest(by, of("canary_placement_target_shards")),
				Legend: revision + " {{entity_type}} real",
			},
		},
	}
}

func moves() Panel {
	service := func(metric string) string { return series(metric, ofNamespace, ofService) }
	return Panel{
		Title:       "Moves of shards",
		Unit:        count,
		Width:       12,
		Empty:       notPlanned,
		Description: "Pending: shards that are not where the plan wants them. Moved: shards that moved from one living member to another in each interval. A plan that stays pending has a reason: the condition PlacementEnforced of the Service's CDEventSubject, or the log of the application.",
		Queries: []Query{
			{Expr: largest("entity_type", service("canary_placement_pending_moves")), Legend: "{{entity_type}} pending"},
			{Expr: added("entity_type", service("canary_placement_moves_total")), Legend: "{{entity_type}} moved"},
			{Expr: largest("kn_service_name", "1 - "+service("canary_placement_converged")), Legend: "not converged"},
		},
	}
}

func missing() Panel {
	return Panel{
		Title: "What is not known, and why", Kind: Table, Width: 12, Empty: "Nothing is missing",
		Description: "Figures without data. They are never shown as zero. Rows without a Revision are about the Service.",
		Queries: []Query{{Expr: largest(byRevision+", figure, reason", series("canary_no_data", ofNamespace, ofService,
			// Values of the Service have no Revision.
			strings.Replace(ofRevision, `$revision`, `$revision|`, 1)))}},
	}
}

func age() Panel {
	return Panel{
		Title:       "Age of the last scrape",
		Unit:        seconds,
		Width:       12,
		Empty:       "no pod of this Service is ready",
		Description: "Of the ready pod of a Revision that was not scraped for the longest time. If it is more than a few scrape intervals, the figures of this Revision are outdated.",
		Queries:     []Query{{Expr: largest(byRevision, of("canary_scrape_age_seconds")), Legend: revision}},
	}
}

func scrapes() Panel {
	return Panel{
		Title: "Scrapes of pods, all Services", Unit: "ops", Width: 12, Empty: notScraped,
		Description: "How often the controller scraped pods, by result.",
		Queries:     []Query{{Expr: rate("result", series("canary_scrapes_total"), short), Legend: "{{result}}"}},
	}
}

func rejected() Panel {
	return Panel{
		Title:       "Samples not counted as exported, all Services",
		Unit:        "ops",
		Width:       12,
		Kind:        Bars,
		Empty:       notScraped,
		Description: "Samples of pods that cannot be correct, by reason: for example negative, not a number, decreased, or too many.",
		Queries:     []Query{{Expr: rate("reason", series("canary_rejected_samples_total"), short), Legend: "{{reason}}"}},
	}
}

// SPDX-License-Identifier: Apache-2.0

package dashboards

// cdevents shows whether events are delivered: one row each for sent events, pending events,
// errors, observed clusters, and environments.
func cdevents() Dashboard {
	// Every replica exports the pending events of every source from the start.
	const known = "cdevents_pending"
	return Dashboard{
		File:        "cdevents.json",
		UID:         "knative-cdevents-delivery",
		Title:       "Delivery of CDEvents",
		Description: "Events that the controller delivered to sinks, events that are pending, and events that it dropped.",
		Variables: append(
			scraped("cdevents_leading_ratio"),
			Variable{
				Name:        "source",
				Title:       "Source",
				Series:      series(known),
				Label:       "source",
				Many:        true,
				Description: "CDEventSources, as namespace/name.",
			},
		),
		Rows: []Row{
			{Title: "Sent", Panels: []Panel{delivered(), attempts(), deliveryLatency()}},
			{Title: "Retries", Panels: []Panel{retries(), incomplete()}},
			{Title: "Pending", Panels: []Panel{pending(ofSource), oldest(ofSource), breakers()}},
			{Title: "Dropped events and problems", Panels: []Panel{lost(), deadLetters(), ledgerTroubles()}},
			{Title: "Stateful clusters", Panels: []Panel{clusters(), looks(), declarations()}},
			{Title: "Environments", Panels: []Panel{environments(), readable(), environmentEvents()}},
		},
	}
}

// Why there is no data of sources, and of what each replica always exports.
const (
	noSource   = "no source exists"
	notScraped = "no replica of the controller was scraped in this time"
)

const ofSource = `source=~"$source"`

func delivered() Panel {
	return Panel{
		Title: "Events accepted by sinks", Unit: count, Width: 24, Kind: Bars, Empty: "none yet",
		Description: "Number of events in each interval, by type.",
		Queries:     addedBy("type", series("cdevents_delivered_total", ofSource)),
	}
}

func attempts() Panel {
	return Panel{
		Title: "Answers of sinks", Unit: count, Width: 12, Kind: Bars, Empty: "none yet",
		Description: "Delivery attempts in each interval, by class of the answer. none: there was no answer.",
		Queries:     addedBy("code_class", series("cdevents_delivery_attempts_total", ofSource)),
	}
}

func retries() Panel {
	return Panel{
		Title:       "Attempts that failed",
		Unit:        count,
		Width:       12,
		Kind:        Bars,
		Empty:       "none",
		Description: "Delivery attempts in each interval that a sink did not accept, by source. They are repeated, with growing pauses, unless the answer says that it is useless.",
		Queries:     addedBy("source", series("cdevents_delivery_attempts_total", ofSource, `code_class!="2xx"`)),
	}
}

func incomplete() Panel {
	return Panel{
		Title: "Incomplete events", Unit: count, Width: 12, Kind: Bars, Empty: "none",
		Description: "Accepted events that say in customData.notes what they lack, in each interval, by source.",
		Queries:     addedBy("source", series("cdevents_incomplete_total", ofSource)),
	}
}

func deliveryLatency() Panel {
	buckets := series("cdevents_delivery_latency_seconds_bucket", ofSource)
	// Events are rare. If a histogram appears within the interval, all of its count falls in it.
	of := func(q string) string { return "histogram_quantile(" + q + ", " + added("le", buckets) + ") >= 0" }
	return Panel{
		Title: "From observation to acknowledgement", Unit: seconds, Width: 12, Empty: "none yet",
		Description: "Interpolated within the buckets of the histogram. There are gaps while no events are delivered.",
		Queries:     []Query{{Expr: of("0.5"), Legend: "p50"}, {Expr: of("0.95"), Legend: "p95"}},
	}
}

// pending and oldest take matchers of the series to show.
func pending(matchers ...string) Panel {
	return Panel{
		Title: "Pending events", Unit: count, Width: 8, Empty: noSource,
		Description: "Journaled events that the source's sink has not accepted yet.",
		Queries:     largestBy("source", series("cdevents_pending", matchers...)),
	}
}

func oldest(matchers ...string) Panel {
	return Panel{
		Title: "Age of the oldest pending event", Unit: clock, Width: 8, Empty: noSource,
		Description: "How long your pipelines have been waiting. 0: no event is pending.",
		Queries:     largestBy("source", series("cdevents_oldest_pending_age_seconds", matchers...)),
	}
}

func breakers() Panel {
	return Panel{
		Title: "Sinks that are only probed", Unit: count, Width: 8, Max: 1, Empty: noSource,
		Description: "1 while a sink is only probed after repeated failures. Its pending events wait.",
		Queries:     largestBy("source", series("cdevents_breaker_open", ofSource)),
	}
}

func lost() Panel {
	return Panel{
		Title: "Dropped events", Unit: count, Width: 8, Kind: Bars, Empty: "none",
		Description: "Number of events in each interval, by reason, over all sources.",
		Queries:     addedBy("reason", series("cdevents_dropped_total")),
	}
}

func deadLetters() Panel {
	return Panel{
		Title: "Dead letters", Unit: count, Width: 8, Kind: Bars, Empty: "none",
		Description: "Events that the dead letter sink accepted in each interval.",
		Queries:     addedBy("source", series("cdevents_dead_letters_total", ofSource)),
	}
}

func ledgerTroubles() Panel {
	return Panel{
		Title:       "The ledger",
		Unit:        count,
		Width:       8,
		Kind:        Bars,
		Empty:       "none",
		Description: "In each interval: writes that the API server did not accept (while these increase, no new events are sent), writes that were repeated after a conflict, and updates that were merged because a history was full.",
		Queries: []Query{
			{Expr: added("", series("cdevents_ledger_write_failures_total")), Legend: "write failures"},
			{Expr: added("", series("cdevents_ledger_conflicts_total")), Legend: "conflicts"},
			{Expr: added("", series("cdevents_merged_snapshots_total")), Legend: "merged updates"},
		},
	}
}

func clusters() Panel {
	return Panel{
		Title: "Clusters by state", Unit: count, Width: 8, Empty: "no Service declares one",
		Description: "Stateful clusters that the controller polls.",
		Queries:     []Query{{Expr: total("state", series("cdevents_clusters")), Legend: "{{state}}"}},
	}
}

func looks() Panel {
	return Panel{
		Title:       "Polls of clusters",
		Unit:        count,
		Width:       8,
		Kind:        Bars,
		Empty:       "no Service declares one",
		Description: "Polls in each interval, by outcome; and pods that were not polled, because they have the labels of a Service but do not belong to it.",
		Queries: []Query{
			{Expr: added("outcome", series("cdevents_cluster_polls_total")), Legend: "{{outcome}}"},
			{Expr: added("", series("cdevents_cluster_pods_refused_total")), Legend: "pods not polled"},
		},
	}
}

func declarations() Panel {
	return Panel{
		Title:       "Invalid declarations",
		Unit:        count,
		Width:       8,
		Empty:       notScraped,
		Description: "Services whose newest Revision declares a cluster with annotations that are not valid. The condition StatefulDeclared of the Service's CDEventSubject names them. Pods that declare a sidecar and have none: the condition ClusterTroubled does.",
		Queries: []Query{
			{Expr: total("", series("cdevents_cluster_declarations_wrong")), Legend: "Services"},
			{Expr: total("", series("cdevents_cluster_pods_without_sidecar")), Legend: "pods without their sidecar"},
		},
	}
}

// notChosen is why there is no data of environments.
const notChosen = "no kind of environments is installed"

// Every replica watches all kinds, and exports the same.
func environments() Panel {
	return Panel{
		Title:       "Environments by kind",
		Unit:        count,
		Width:       8,
		Empty:       notChosen,
		Description: "Objects that the controller watches. What is composed for another one is watched too, and not announced.",
		Queries:     largestBy("group_kind", series("environment_objects")),
	}
}

func readable() Panel {
	return Panel{
		Title:       "Kinds that can be read",
		Unit:        count,
		Width:       8,
		Max:         1,
		Empty:       notChosen,
		Description: "0: nothing is announced of this kind. MayNotRead: the controller has no permission; CannotReadNow: the API server fails, for example because of a conversion webhook.",
		Queries: []Query{
			{Expr: largest("group_kind, reason", series("environment_kind_readable")), Legend: "{{group_kind}} {{reason}}"},
		},
	}
}

// ofEnvironments matches the types of events that only environments have. Incidents have the same types as those of
// Services.
const ofEnvironments = `type=~"dev\\.cdevents\\.environment\\..+|dev\\.cdeventsx\\.(clusterapi|crossplane)-cluster\\..+"`

func environmentEvents() Panel {
	return Panel{
		Title: "Events of environments", Unit: count, Width: 8, Kind: Bars, Empty: "none yet",
		Description: "Events of environments that sinks accepted in each interval, by type, without incidents.",
		Queries:     addedBy("type", series("cdevents_delivered_total", ofSource, ofEnvironments)),
	}
}

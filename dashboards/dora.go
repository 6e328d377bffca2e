// SPDX-License-Identifier: Apache-2.0

package dashboards

const (
	// One environment at a time: what is released to staging and to production does not add up.
	inEnvironment = `environment="$environment"`
	ofTeam        = inEnvironment + `,k8s_namespace_name=~"$namespace",kn_service_name=~"$service"`
	byDelivery    = byService + ", environment"
	ofEnvironment = ofServices + " {{environment}}"
	doraTotal     = "dora_deployments_total"
	failuresTotal = "dora_change_failures_total"
	leadTime      = "dora_change_lead_time_seconds"
	restoreTime   = "dora_time_to_restore_seconds"
	notDeployed   = "no deployment was seen"
)

// performance shows the metrics of software delivery that docs/dora.md defines.
func performance() Dashboard {
	return Dashboard{
		File:        "dora.json",
		UID:         "knative-cdevents-dora",
		Title:       "DORA",
		Description: "Deployments, changes that fail, the lead time of changes, and the time to restore service, by Service and environment.",
		Variables: append(
			scraped("cdevents_leading_ratio"),
			Variable{
				Name:        "environment",
				Title:       "Environment",
				Series:      series(doraTotal),
				Label:       "environment",
				Empty:       notDeployed,
				Description: "One at a time: releases to staging and to production do not add up.",
			},
			Variable{
				Name:   "namespace",
				Title:  "Namespace",
				Series: series(doraTotal, inEnvironment),
				Label:  "k8s_namespace_name",
				Many:   true,
				Empty:  notDeployed,
			},
			Variable{
				Name:   "service",
				Title:  "Service",
				Series: series(doraTotal, inEnvironment, ofNamespaces),
				Label:  "kn_service_name",
				Many:   true,
				Empty:  notDeployed,
			},
		),
		Rows: []Row{
			{Title: "In the selected time", Panels: []Panel{deliveries()}},
			{Title: "Over time", Panels: []Panel{deployments(), changeFailures(), leadTimes(), restoreTimes()}},
		},
	}
}

// stored returns the total of a counter that the ledger stores. Every replica that leads exports it, and for a moment
// two may.
func stored(by, metric string, matchers ...string) string {
	return largest(by, series(metric, append([]string{ofTeam}, matchers...)...))
}

// grown returns how much stored totals grew in the selected time. A series begins with its first deployment, so what
// was not there before was 0. That of a Service that is gone has ended, and counts: the bars have its deployments, too.
func grown(by, metric string, matchers ...string) string {
	now := largest(by, "last_over_time("+series(metric, append([]string{ofTeam}, matchers...)...)+"["+shown+"])")
	before := largest(by, series(metric, append([]string{ofTeam}, matchers...)...)+" offset "+shown)
	return "clamp_min(" + now + " - (" + before + " or 0 * " + now + "), 0)"
}

func sumBy(by, of string) string { return "sum by (" + by + ") (" + of + ")" }

// each returns how much stored totals grew since the step before, so that a deployment is in one bar. The total is
// absent for a moment while the leader changes, so the largest of the last few scrapes counts. A total that was read
// first is no deployment.
func each(by, metric string, matchers ...string) string {
	labels := byDelivery + ", outcome"
	// Both are ranges, so that a series that has ended is not taken for a new one while Prometheus still looks back to it.
	now := largest(labels, "max_over_time("+series(metric, matchers...)+"["+short+"])")
	before := largest(labels, "max_over_time("+series(metric, matchers...)+"["+short+"] offset "+step+")")
	known := "group(" + series("cdevents_leading_ratio") + " offset " + step + ")"
	return sumBy(by, "clamp_min("+now+" - "+before+", 0) or "+now+" and on () "+known)
}

func deliveries() Panel {
	by := byDelivery + ", outcome"
	all := func(metric string, matchers ...string) string {
		return sumBy(byDelivery, grown(by, metric, matchers...))
	}
	times := func(metric string) string {
		return median(func(by, suffix string) string { return sumBy(by, grown(by, metric+suffix)) })
	}
	return Panel{
		Title:       "By Service",
		Kind:        Table,
		Width:       24,
		Height:      6,
		Empty:       notDeployed,
		To:          "knative-cdevents-canary",
		Description: "Deployments: Revisions that got all traffic. Stopped: canaries that were withdrawn before. Failed: deployments that were rolled back or followed by an outage. Fail rate: both of all, stopped canaries included. Times are medians. Services that are gone are listed, too. What happened before Prometheus knew the controller counts as if it had happened in this time.",
		Queries: []Query{
			{Column: "Deployments", Unit: count, Expr: all(doraTotal, `outcome="completed"`)},
			{Column: "Stopped", Unit: count, Expr: all(doraTotal, `outcome="stopped"`)},
			{Column: "Failed", Unit: count, Expr: all(failuresTotal, `outcome="completed"`)},
			{Column: "Fail rate", Unit: percent, Expr: ratio(all(failuresTotal), all(doraTotal))},
			{Column: "Lead time", Unit: seconds, Expr: times(leadTime)},
			{Column: "Time to restore", Unit: seconds, Expr: times(restoreTime)},
		},
	}
}

// firstMinute is what bars of stored counts cannot show: whether what a first scrape has is new.
const firstMinute = " What happens in the first minute in which Prometheus knows the controller is in the table only."

func deployments() Panel {
	return Panel{
		Title: "Deployments", Unit: count, Width: 12, Kind: Bars, Empty: notDeployed,
		Description: "In each interval: completed with all traffic, or stopped as a canary." + firstMinute,
		Colors:      []Color{{"^completed$", "green"}, {"^stopped$", "orange"}},
		Queries:     []Query{{Expr: each("outcome", doraTotal, ofTeam), Legend: "{{outcome}}"}},
	}
}

func changeFailures() Panel {
	return Panel{
		Title:       "Changes that failed",
		Unit:        count,
		Width:       12,
		Kind:        Bars,
		Empty:       "none",
		Description: "In each interval: rolled back after all traffic or followed by an outage (completed), or withdrawn as a canary (stopped)." + firstMinute,
		Colors:      []Color{{"^completed$", "red"}, {"^stopped$", "orange"}},
		Queries:     []Query{{Expr: each("outcome", failuresTotal, ofTeam), Legend: "{{outcome}}"}},
	}
}

// median returns that of a histogram whose parts a function returns. Of one or two durations, it is exact: their mean.
// Of more it is interpolated between the bounds of a bucket: for one of 44 s, that would be half a minute.
func median(part func(by, suffix string) string) string {
	n := part(byDelivery, "_count")
	return part(byDelivery, "_sum") + " / (" + n + " > 0 <= 2) or histogram_quantile(0.5, " +
		part(byDelivery+", le", "_bucket") + ") >= 0"
}

// overAll returns the median of all durations so far.
func overAll(metric string) string {
	return median(func(by, suffix string) string { return sumBy(by, stored(by, metric+suffix)) })
}

func leadTimes() Panel {
	return Panel{
		Title:       "Lead time of changes",
		Unit:        seconds,
		Width:       12,
		Empty:       "no deployment says when its change was committed",
		Description: "Median of all deployments so far, interpolated if there are more than two, from the commit or the start of the pipeline to all traffic. Needs an annotation of the pipeline.",
		Queries:     []Query{{Expr: overAll(leadTime), Legend: ofEnvironment}},
	}
}

func restoreTimes() Panel {
	return Panel{
		Title:       "Time to restore service",
		Unit:        seconds,
		Width:       12,
		Empty:       "nothing had to be restored",
		Description: "Median of all outages, rollbacks and stopped canaries so far, interpolated if there are more than two, from the first traffic of the bad Revision, or the beginning of the outage, to the end.",
		Queries:     []Query{{Expr: overAll(restoreTime), Legend: ofEnvironment}},
	}
}

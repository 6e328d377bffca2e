// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"fmt"
	"strings"
)

// Only the leader of a Service's bucket exports its values: a series ends on one pod and starts at
// 0 on another. So counters are summed over replicas after rate(), never before, and gauges use the
// maximum, because for one scrape both may export them.

const (
	short = "$__rate_interval"
	shown = "$__range"
	// step is the distance of two values of a panel, and stepMillis the same as a number.
	step       = "$__interval"
	stepMillis = "$__interval_ms"
)

// ofScrape matches the scraped jobs and instances that the reader has selected.
const ofScrape = `job=~"$job",instance=~"$instance"`

// series returns a metric with label matchers.
func series(metric string, matchers ...string) string {
	return metric + "{" + strings.Join(append(matchers, ofScrape), ",") + "}"
}

// rate returns the rate per second of a counter.
func rate(by, series, window string) string {
	return fmt.Sprintf("sum by (%s) (rate(%s[%s]))", by, series, window)
}

// increase returns the increase, in the time that is shown, of a counter that starts at 0 before it counts.
func increase(by, series string) string {
	return fmt.Sprintf("sum by (%s) (increase(%s[%s]))", by, series, shown)
}

// added returns what a counter has counted since the step before, so that an event is in one bar only. rate() and
// increase() do not see the first count of a counter that appears with it, or they see a count in several steps. All
// that a counter has when it appears counts, but only if its replica was scraped before or has just started: what it
// counted before Prometheus knew it would be one high bar.
func added(by, counter string) string {
	const known = "cdevents_leading_ratio"
	started := series("process_start_time_seconds") + " > time() - " + stepMillis + " / 1000"
	return fmt.Sprintf("sum by (%s) (%s - %s offset %s >= 0 or %s and on (job, instance) (%s offset %s or %s))",
		by, counter, counter, step, counter, series(known), step, started)
}

// counted returns what a counter has counted in the time that is shown. increase() does not see what a series has when
// it appears, so that is added, unless the series was there before.
func counted(by, counter string) string {
	grown := "increase(" + counter + "[" + shown + "])"
	first := "(min_over_time(" + counter + "[" + shown + "]) unless " + counter + " offset " + shown + ")"
	return fmt.Sprintf("round(sum by (%s) (%s + %s or %[3]s or %[2]s))", by, grown, first)
}

// addedBy shows a counter by one label, as added does.
func addedBy(label, counter string) []Query {
	return []Query{{Expr: added(label, counter), Legend: "{{" + label + "}}"}}
}

// largestBy shows the maximum of a gauge by one label.
func largestBy(label, gauge string) []Query {
	return []Query{{Expr: largest(label, gauge), Legend: "{{" + label + "}}"}}
}

// ratio returns the part of a whole. It is absent, and not NaN, if the whole is nothing.
func ratio(part, whole string) string { return part + " / (" + whole + " > 0)" }

// total returns the sum of a gauge of which each replica exports a part.
func total(by, series string) string {
	return fmt.Sprintf("sum by (%s) (%s)", by, series)
}

// largest returns the maximum of a gauge.
func largest(by, series string) string {
	return fmt.Sprintf("max by (%s) (%s)", by, series)
}

// quantile returns a quantile of a histogram, from 0 to 1. It is absent, and not NaN, if nothing was counted.
func quantile(q float64, by, buckets, window string) string {
	return fmt.Sprintf("histogram_quantile(%g, sum by (%s, le) (rate(%s[%s]))) >= 0", q, by, buckets, window)
}

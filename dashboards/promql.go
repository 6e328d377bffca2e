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
)

// series returns a metric with label matchers.
func series(metric string, matchers ...string) string {
	return metric + "{" + strings.Join(matchers, ",") + "}"
}

// rate returns the rate per second of a counter.
func rate(by, series, window string) string {
	return fmt.Sprintf("sum by (%s) (rate(%s[%s]))", by, series, window)
}

// increase returns the increase of a counter that starts at 0 before it counts.
func increase(by, series, window string) string {
	return fmt.Sprintf("sum by (%s) (increase(%s[%s]))", by, series, window)
}

// added returns the increase, in each interval, of a counter that only appears with its first
// count: it has no predecessor, so increase() would miss it.
func added(by, series string) string {
	return fmt.Sprintf("sum by (%s) ((%s unless %s offset %s) or increase(%s[%s]))", by, series, series, short, series, short)
}

// total returns the sum of a gauge of which each replica exports a part.
func total(by, series string) string {
	return fmt.Sprintf("sum by (%s) (%s)", by, series)
}

// largest returns the maximum of a gauge.
func largest(by, series string) string {
	return fmt.Sprintf("max by (%s) (%s)", by, series)
}

// quantile returns a quantile of a histogram, from 0 to 1.
func quantile(q float64, by, buckets, window string) string {
	return fmt.Sprintf("histogram_quantile(%g, sum by (%s, le) (rate(%s[%s])))", q, by, buckets, window)
}

package dashboards

import (
	"fmt"
	"strings"
)

// Of a figure, only the leader of a Service's bucket tells: a series ends on one pod
// and begins at 0 on another. Hence counters are summed over replicas after their
// rate was taken, never before, and of gauges the largest is shown, as for one
// scrape both may tell.

const (
	short = "$__rate_interval"
	shown = "$__range"
)

// series is a metric with the matchers of its labels.
func series(metric string, matchers ...string) string {
	return metric + "{" + strings.Join(matchers, ",") + "}"
}

// rate per second of a counter.
func rate(by, series, window string) string {
	return fmt.Sprintf("sum by (%s) (rate(%s[%s]))", by, series, window)
}

// increase of a counter that has been there, at 0, before it counted.
func increase(by, series, window string) string {
	return fmt.Sprintf("sum by (%s) (increase(%s[%s]))", by, series, window)
}

// added is the increase, in each interval, of a counter that only appears with what it counts first:
// that has no predecessor, and increase() would not see it.
func added(by, series string) string {
	return fmt.Sprintf("sum by (%s) ((%s unless %s offset %s) or increase(%s[%s]))", by, series, series, short, series, short)
}

// total of a gauge of which each replica tells its part.
func total(by, series string) string {
	return fmt.Sprintf("sum by (%s) (%s)", by, series)
}

// largest of a gauge.
func largest(by, series string) string {
	return fmt.Sprintf("max by (%s) (%s)", by, series)
}

// quantile of a histogram, from 0 to 1.
func quantile(q float64, by, buckets, window string) string {
	return fmt.Sprintf("histogram_quantile(%g, sum by (%s, le) (rate(%s[%s])))", q, by, buckets, window)
}

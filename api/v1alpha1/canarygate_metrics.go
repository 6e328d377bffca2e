// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"slices"
	"time"
)

// The types of a GateMetric. Package canary/judge says what each counts.
const (
	// MetricErrorRate: requests that ended in an error or a timeout.
	MetricErrorRate = "ErrorRate"
	// MetricEntryErrors: the same, by the Revision where the request entered.
	MetricEntryErrors = "EntryErrors"
	// MetricClientErrors: requests that were answered with a 4xx code, by the Revision where they entered.
	MetricClientErrors = "ClientErrors"
	// MetricSlowRequests: requests that took longer than the threshold.
	MetricSlowRequests = "SlowRequests"
	// MetricSlowerAnywhere: compared at every bound of the histogram at once.
	MetricSlowerAnywhere = "SlowerAnywhere"
	// MetricQuery: what a query of the operator's counts.
	MetricQuery = "Query"
)

// gateMetricType is what a type of GateMetric takes.
type gateMetricType struct {
	name string
	// byDefault means that a gate without metrics has it.
	byDefault bool
	// threshold is the default of the field, and query whether there is that field. 0 or false means
	// that the field is not allowed.
	threshold time.Duration
	query     bool
	// codes means that ignoreCodes is allowed.
	codes bool
	// odds is the default of maxOddsRatio, 1.5 if it is 0.
	odds float64
	// unlimited means that limit is not allowed.
	unlimited bool
}

// gateMetricTypes lists all of them, in the order in which users read them.
var gateMetricTypes = []gateMetricType{
	{name: MetricErrorRate, byDefault: true},
	{name: MetricEntryErrors, byDefault: true},
	{name: MetricClientErrors, byDefault: true, codes: true, odds: 3},
	{name: MetricSlowRequests, byDefault: true, threshold: 500 * time.Millisecond},
	{name: MetricSlowerAnywhere, unlimited: true},
	{name: MetricQuery, query: true},
}

// GateMetricTypes returns the names of all types of a GateMetric.
func GateMetricTypes() []string {
	return namesOf(func(gateMetricType) bool { return true })
}

func namesOf(some func(gateMetricType) bool) (names []string) {
	for _, t := range gateMetricTypes {
		if some(t) {
			names = append(names, t.name)
		}
	}
	return names
}

// kind returns what the metric's type takes; false if there is no such type.
func (m *GateMetric) kind() (gateMetricType, bool) {
	i := slices.IndexFunc(gateMetricTypes, func(t gateMetricType) bool { return t.name == m.Type })
	if i < 0 {
		return gateMetricType{}, false
	}
	return gateMetricTypes[i], true
}

// defaultGateMetrics are those of a gate that names none.
func defaultGateMetrics() (all []GateMetric) {
	for _, name := range namesOf(func(t gateMetricType) bool { return t.byDefault }) {
		all = append(all, GateMetric{Type: name})
	}
	return all
}

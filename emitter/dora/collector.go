// SPDX-License-Identifier: Apache-2.0

package dora

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// serviceLabels match those of Serving's own metrics, so queries can join both.
var serviceLabels = []string{"k8s_namespace_name", "kn_service_name", "environment"}

var (
	deployments = prometheus.NewDesc(
		"dora_deployments_total",
		"Deployments to users: Revisions that got all traffic (outcome completed), and canaries that were withdrawn before (outcome stopped).",
		append(serviceLabels[:3:3], "outcome"),
		nil,
	)
	failures = prometheus.NewDesc(
		"dora_change_failures_total",
		"Deployments that failed: rolled back or followed by an outage (outcome completed), or withdrawn as a canary (outcome stopped).",
		append(serviceLabels[:3:3], "outcome"),
		nil,
	)
	leadTime = prometheus.NewDesc("dora_change_lead_time_seconds",
		"Time from the commit, or else the start of the pipeline, to all traffic, in seconds.", serviceLabels, nil)
	restore = prometheus.NewDesc(
		"dora_time_to_restore_seconds",
		"Time from the beginning of an outage, or the first traffic of a deployment that was rolled back, to its end, in seconds.",
		serviceLabels,
		nil,
	)
)

// Outcomes of a deployment, as a label.
const (
	completed = "completed"
	stopped   = "stopped"
)

// Ledger lists what is stored. ledger.Ledger implements it.
type Ledger interface {
	All() []*v1alpha1.CDEventSubject
}

// Leader says what this process leads for.
type Leader interface {
	IsLeaderFor(service types.NamespacedName) bool
}

// Environments are those of namespaces.
type Environments interface {
	EnvironmentOf(namespace string) string
}

// Collector exports the stored counts of the Services that this process leads for. What is 0 is absent.
type Collector struct {
	Ledger       Ledger
	Leader       Leader
	Environments Environments
}

var _ prometheus.Collector = (*Collector)(nil)

// Describe implements prometheus.Collector.
func (*Collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{deployments, failures, leadTime, restore} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	newest := map[types.NamespacedName]*v1alpha1.CDEventSubject{}
	for _, s := range c.Ledger.All() {
		if s.Spec.Kind != "Service" || s.Status.Removed || s.Status.Performance == nil {
			continue
		}
		// The ledger may not know yet that a Service is gone whose name another one has.
		key := types.NamespacedName{Namespace: s.Spec.Namespace, Name: s.Spec.Name}
		if other := newest[key]; other == nil || other.CreationTimestamp.Before(&s.CreationTimestamp) {
			newest[key] = s
		}
	}
	for key, s := range newest {
		if c.Leader.IsLeaderFor(key) {
			collect(to, s.Status.Performance, key.Namespace, key.Name, c.Environments.EnvironmentOf(key.Namespace))
		}
	}
}

func collect(to chan<- prometheus.Metric, p *v1alpha1.Performance, labels ...string) {
	for _, one := range []struct {
		desc    *prometheus.Desc
		value   int64
		outcome string
	}{
		{deployments, p.Deployments, completed},
		{deployments, p.Stopped, stopped},
		{failures, p.Failures, completed},
		{failures, p.Stopped, stopped},
	} {
		if one.value <= 0 {
			continue
		}
		if m, err := prometheus.NewConstMetric(one.desc, prometheus.CounterValue, float64(one.value),
			append(labels[:len(labels):len(labels)], one.outcome)...); err == nil {
			to <- m
		}
	}
	histogram(to, leadTime, p.LeadTime, LeadTimeBuckets, labels)
	histogram(to, restore, p.Restore, RestoreBuckets, labels)
}

func histogram(to chan<- prometheus.Metric, desc *prometheus.Desc, d *v1alpha1.DurationCounts, bounds []time.Duration,
	labels []string,
) {
	if d == nil {
		return
	}
	upTo, sum := map[float64]uint64{}, uint64(0)
	for i := range max(len(bounds), len(d.Counts)) {
		if i < len(d.Counts) {
			sum += uint64(max(d.Counts[i], 0))
		}
		if i < len(bounds) {
			upTo[bounds[i].Seconds()] = sum
		}
	}
	if m, err := prometheus.NewConstHistogram(desc, sum, float64(d.Milliseconds)/1000, upTo, labels...); err == nil {
		to <- m
	}
}

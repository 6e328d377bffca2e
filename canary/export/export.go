// SPDX-License-Identifier: Apache-2.0

// Package export exports the counts of attribution to Prometheus.
//
// Its invariants:
//   - An unknown figure is absent; it is never zero.
//   - Labels are bounded: no shard, no entity, no pod.
//   - It exports only the Services that this process scrapes. After a handover, a Service
//     is absent from the next scrape.
package export

import (
	"iter"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
)

// Counts are the source of the exported figures; attribution.Counts implements it.
type Counts interface {
	Figures() iter.Seq[attribution.Figures]
	Health() attribution.Health
}

// revisionLabels match those of Serving's own metrics, so queries can join both.
var revisionLabels = []string{"k8s_namespace_name", "kn_service_name", "kn_configuration_name", "kn_revision_name"}

func describe(name, help string, labels ...string) *family {
	return &family{
		desc: prometheus.NewDesc("canary_"+name, help, append(slices.Clone(revisionLabels), labels...), nil),
		own:  labels,
	}
}

var (
	entryRequests = describe("entry_requests_total",
		"Requests that entered at the Revision, by class of the status code (unknown if there is none).", "code_class")
	handledRequests = describe("handled_requests_total",
		"Requests that the Revision handled, wherever they entered, by outcome.", "outcome")
	handledByEntry = describe("handled_requests_by_entry_total",
		"Requests that the Revision handled, by the Revision where they entered; only if the application exports this.",
		"entry_revision_name")
	handledDuration = describe("handled_request_duration_seconds",
		"Durations of the requests that the Revision handled, in seconds.")
	requiredShare = describe("traffic_share_ratio",
		"Share of the requests that the current Route gives the Revision.")
	handledShare = describe("handled_share_ratio",
		"Share of the requests in the last 5 minutes that the Revision handled.")
	unaccounted = describe(
		"unaccounted_requests",
		"Requests that the Revision started but did not finish within the request timeout (stage handling), or that entered the Service but were never started (stage entry).",
		"stage",
	)
	podRestarts = describe("pod_restarts_total",
		"Restarts of containers and failures of pods of the Revision, by reason.", "reason")
	clusterMembers = describe("cluster_members",
		"Pods of the Revision that are members of the stateful cluster.")
	clusterShards = describe("cluster_shards",
		"Shards that the Revision's pods hold, by entity type.", "entity_type")
	scrapeAge = describe("scrape_age_seconds",
		"Seconds since the last successful scrape, for the pod of the Revision that was not scraped for the longest time.")
	noData = describe("no_data",
		"1 for each figure that is missing, with the reason.", "figure", "reason")

	scrapes  = prometheus.NewDesc("canary_scrapes_total", "Scrapes of pods, by result.", []string{"result"}, nil)
	rejected = prometheus.NewDesc("canary_rejected_samples_total",
		"Samples of pods that were not counted as exported, by reason.", []string{"reason"}, nil)
	targets  = prometheus.NewDesc("canary_scrape_targets", "Ports of pods that this replica scrapes.", nil, nil)
	services = prometheus.NewDesc("canary_scrape_services", "Services that this replica scrapes.", nil, nil)
	duration = prometheus.NewDesc("canary_scrape_duration_seconds",
		"Duration of the slowest of the last scrapes, in seconds.", nil, nil)
)

var all = []*prometheus.Desc{
	entryRequests.desc, handledRequests.desc, handledByEntry.desc, handledDuration.desc, requiredShare.desc,
	handledShare.desc, unaccounted.desc,
	podRestarts.desc, clusterMembers.desc, clusterShards.desc, scrapeAge.desc, noData.desc, scrapes, rejected, targets,
	services, duration,
}

// Collector is a prometheus.Collector of Counts.
type Collector struct{ counts Counts }

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector returns a Collector.
func NewCollector(b Counts) *Collector { return &Collector{counts: b} }

// Describe implements prometheus.Collector.
func (*Collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range all {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	own := pairs{}
	for f := range c.counts.Figures() {
		s := service{to: to, own: own, namespace: f.Service.Namespace, name: f.Service.Name}
		s.collect(f)
	}
	h := c.counts.Health()
	plain(to, scrapes, prometheus.CounterValue, h.Scrapes)
	plain(to, rejected, prometheus.CounterValue, h.Rejected)
	for desc, value := range map[*prometheus.Desc]float64{
		targets: float64(h.Targets), services: float64(h.Services), duration: h.Longest.Seconds(),
	} {
		send(to, desc, prometheus.GaugeValue, value)
	}
}

func plain(to chan<- prometheus.Metric, desc *prometheus.Desc, kind prometheus.ValueType, by map[string]float64) {
	for _, label := range slices.Sorted(maps.Keys(by)) {
		send(to, desc, kind, by[label], label)
	}
}

// send drops an invalid metric, because one bad label must not fail the whole scrape.
func send(to chan<- prometheus.Metric, desc *prometheus.Desc, kind prometheus.ValueType, value float64,
	labels ...string,
) {
	if m, err := prometheus.NewConstMetric(desc, kind, value, labels...); err == nil {
		to <- m
	}
}

// service sends the figures of one Service.
type service struct {
	to              chan<- prometheus.Metric
	own             pairs
	namespace, name string
	// labels are revisionLabels, sorted by name as series need them.
	labels []*dto.LabelPair
}

// of makes what follows the figures of a Revision, or of the Service if it has no name.
func (s *service) of(configuration, revision string) {
	s.labels = []*dto.LabelPair{
		pair(revisionLabels[0], s.namespace), pair(revisionLabels[2], configuration), pair(revisionLabels[3], revision),
		pair(revisionLabels[1], s.name),
	}
}

func (s *service) send(f *family, kind prometheus.ValueType, value float64, labels ...string) {
	if all, ok := s.own.around(s.labels, f.own, labels); ok {
		s.to <- &series{desc: f.desc, kind: kind, value: value, labels: all}
	}
}

func (s *service) by(f *family, kind prometheus.ValueType, values map[string]float64) {
	for _, label := range slices.Sorted(maps.Keys(values)) {
		s.send(f, kind, values[label], label)
	}
}

func (s *service) gauge(f *family, value *float64, labels ...string) {
	if value != nil {
		s.send(f, prometheus.GaugeValue, *value, labels...)
	}
}

func (s *service) collect(f attribution.Figures) {
	s.of("", "")
	s.gauge(unaccounted, f.NeverStarted, "entry")
	// A Revision that was recreated under its name has another UID, and both may be known for a moment.
	// The same series twice would be an error.
	seen := map[string]bool{}
	missing := map[[2]string][]attribution.NoData{}
	of := map[string][2]string{}
	for _, r := range f.Revisions {
		of[string(r.UID)] = [2]string{r.Configuration, r.Name}
		if seen[r.Name] {
			continue
		}
		seen[r.Name] = true
		s.of(r.Configuration, r.Name)
		s.revision(r)
	}
	for _, n := range f.NoData {
		missing[of[string(n.Revision)]] = append(missing[of[string(n.Revision)]], n)
	}
	for names, absent := range missing {
		s.of(names[0], names[1])
		once := map[attribution.NoData]bool{}
		for _, n := range absent {
			n.Revision, n.Detail = "", ""
			if !once[n] {
				once[n] = true
				s.send(noData, prometheus.GaugeValue, 1, n.Figure, string(n.Reason))
			}
		}
	}
}

func (s *service) revision(r attribution.RevisionFigures) {
	s.by(entryRequests, prometheus.CounterValue, r.Entered)
	s.by(handledRequests, prometheus.CounterValue, r.Handled)
	s.by(handledByEntry, prometheus.CounterValue, r.EnteredAt)
	if h := r.Durations; h != nil {
		if m, err := prometheus.NewConstHistogram(handledDuration.desc, h.Count, h.Sum, h.Buckets, s.namespace, s.name,
			r.Configuration, r.Name); err == nil {
			s.to <- m
		}
	}
	s.gauge(requiredShare, r.Required)
	s.gauge(handledShare, r.Share)
	s.gauge(unaccounted, r.Unaccounted, "handling")
	s.by(podRestarts, prometheus.CounterValue, r.Restarts)
	s.gauge(clusterMembers, r.Members)
	s.by(clusterShards, prometheus.GaugeValue, r.Shards)
	if r.ScrapeAge != nil {
		s.send(scrapeAge, prometheus.GaugeValue, r.ScrapeAge.Seconds())
	}
}

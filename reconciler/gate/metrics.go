// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// labels are those of Serving's own metrics, and the gate's name, which is empty for
// runs without a gate. A gate has few metrics, with names from its spec.
var labels = []string{"k8s_namespace_name", "kn_service_name", "gate"}

func describe(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc("gate_"+name, help, append(slices.Clone(labels), more...), nil)
}

var (
	verdictDesc = describe("verdict",
		"1 for the current verdict of the run in progress, or else of the last run; 0 for all others.", "verdict")
	canaryDesc = describe("canary_info",
		"1 for the Revision that the run in progress judges, or else that the last run judged.", "kn_revision_name", "dry_run")
	runsDesc     = describe("runs_total", "Finished runs, by verdict. It begins at 0, when the gate is first seen.", "verdict")
	reasonsDesc  = describe("run_reasons_total", "Finished runs, by verdict and most important reason.", "verdict", "reason")
	durationDesc = describe(
		"duration_seconds",
		"How long the run in progress has taken so far, or else how long the last run took, in seconds.",
	)
	valueDesc = describe(
		"metric_value",
		"Ratio of bad requests, by metric of the gate and arm (canary or baseline).",
		"metric",
		"arm",
	)
	evalueDesc = describe(
		"evalue",
		"Evidence as an e-value, by metric of the gate and by what it would prove (fail or pass).",
		"metric",
		"side",
	)
	limitDesc = describe(
		"evalue_required",
		"The e-value that decides, by metric of the gate and by what it would prove (fail or pass).",
		"metric",
		"side",
	)
	foundDesc = describe(
		"metric_verdict",
		"1 for the current verdict on each metric of the gate, with its reason.",
		"metric",
		"verdict",
		"reason",
	)
	pDesc = describe(
		"p_value",
		"p-value of the last comparison over the shards, by metric of the gate; only of sharded Services.",
		"metric",
	)
	samplesDesc  = describe("samples", "Finished requests that were judged, by arm (canary or baseline).", "arm")
	requiredDesc = describe(
		"samples_required",
		"Finished requests that are required at least, by arm (canary or baseline).",
		"arm",
	)
	shareDesc = describe("handled_share_ratio", "Share of the requests that the canary handled over the judged time.")

	all = []*prometheus.Desc{
		verdictDesc, canaryDesc, runsDesc, reasonsDesc, durationDesc, valueDesc, evalueDesc, limitDesc, foundDesc, pDesc,
		samplesDesc, requiredDesc, shareDesc,
	}
)

// subject identifies the object of a series.
type subject struct{ namespace, service, gate string }

type outcome struct{ verdict, reason string }

// countedWithin is how long after its end a run is still counted: a new leader also reads runs that the previous leader
// has counted.
const countedWithin = time.Minute

// Metrics exports the state of this process's gates to Prometheus. It removes a series one
// hour after the run ends, or when the gate is deleted or the lead is lost.
type Metrics struct {
	now    func() time.Time
	leader Leader

	mu      sync.Mutex
	current map[subject]*v1alpha1.GateRun
	// counts has an entry for each gate that was seen, before its first run has ended: rate() and increase() do not see
	// the first count of a series that begins with it.
	counts map[subject]map[outcome]float64
	ended  map[string]time.Time
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics returns metrics without a gate. leader leads for the Services on whose runs this process works.
func NewMetrics(now func() time.Time, leader Leader) *Metrics {
	return &Metrics{
		now: now, leader: leader, current: map[subject]*v1alpha1.GateRun{},
		counts: map[subject]map[outcome]float64{}, ended: map[string]time.Time{},
	}
}

func (m *Metrics) leads(key subject) bool {
	return m.leader.IsLeaderFor(types.NamespacedName{Namespace: key.namespace, Name: key.service})
}

// Record stores the state of a run.
func (m *Metrics) Record(namespace string, run *v1alpha1.GateRun) {
	if m == nil || run.Service.Name == "" || run.Service.UID == "" {
		return // the run has not found its Service
	}
	key := subject{namespace, run.Service.Name, run.Gate}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for id, at := range m.ended {
		if now.Sub(at) > 2*reportPeriod {
			delete(m.ended, id)
		}
	}
	if last := m.current[key]; last == nil || !run.StartTime.Before(&last.StartTime) {
		m.current[key] = run
	}
	if m.counts[key] == nil {
		m.counts[key] = map[outcome]float64{}
	}
	if run.CompletionTime == nil || now.Sub(run.CompletionTime.Time) > countedWithin {
		return
	}
	if _, counted := m.ended[run.ID]; counted {
		return
	}
	m.ended[run.ID] = now
	why := ""
	if len(run.Reasons) > 0 {
		why = run.Reasons[0]
	}
	m.counts[key][outcome{string(run.Verdict), why}]++
}

// forgetGate removes the series of a deleted gate.
func (m *Metrics) forgetGate(key string) {
	if m == nil {
		return
	}
	namespace, name, _ := strings.Cut(key, "/")
	m.mu.Lock()
	defer m.mu.Unlock()
	for s := range m.current {
		if s.namespace == namespace && s.gate == name {
			delete(m.current, s)
		}
	}
	for s := range m.counts {
		if s.namespace == namespace && s.gate == name {
			delete(m.counts, s)
		}
	}
}

// forgetRun removes the series of the run of a CustomRun that was deleted in progress, because it never
// ends. A completed run stays for its hour.
func (m *Metrics) forgetRun(customRun types.UID) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for s, run := range m.current {
		if run.CompletionTime == nil && strings.HasPrefix(run.ID, string(customRun)+"-") {
			delete(m.current, s)
		}
	}
}

// Describe implements prometheus.Collector.
func (*Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range all {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for key, run := range m.current {
		old := run.CompletionTime != nil && now.Sub(run.CompletionTime.Time) > reportPeriod
		if old || !m.leads(key) {
			delete(m.current, key)
			continue
		}
		s := series{to, key}
		s.run(run, now)
	}
	for key, by := range m.counts {
		if !m.leads(key) {
			delete(m.counts, key)
			continue
		}
		runs := map[string]float64{}
		for o, n := range by {
			runs[o.verdict] += n
			series{to, key}.send(reasonsDesc, prometheus.CounterValue, n, o.verdict, o.reason)
		}
		for _, v := range verdict.All() {
			if v != verdict.Running {
				series{to, key}.send(runsDesc, prometheus.CounterValue, runs[string(v)], string(v))
			}
		}
	}
}

type series struct {
	to  chan<- prometheus.Metric
	key subject
}

// send skips a series with an invalid label. Otherwise that label would break the whole
// metrics page.
func (s series) send(desc *prometheus.Desc, kind prometheus.ValueType, value float64, more ...string) {
	if m, err := prometheus.NewConstMetric(desc, kind, value,
		append([]string{s.key.namespace, s.key.service, s.key.gate}, more...)...); err == nil {
		s.to <- m
	}
}

func (s series) gauge(desc *prometheus.Desc, value float64, more ...string) {
	s.send(desc, prometheus.GaugeValue, value, more...)
}

func (s series) some(desc *prometheus.Desc, value *float64, more ...string) {
	if value != nil {
		s.gauge(desc, *value, more...)
	}
}

func (s series) run(run *v1alpha1.GateRun, now time.Time) {
	for _, v := range verdict.All() {
		is := 0.0
		if run.Verdict == v {
			is = 1
		}
		s.gauge(verdictDesc, is, string(v))
	}
	if run.Canary.Name != "" {
		dry := run.Effective != nil && run.Effective.DryRun
		s.gauge(canaryDesc, 1, run.Canary.Name, strconv.FormatBool(dry))
	}
	if run.CompletionTime != nil {
		now = run.CompletionTime.Time
	}
	s.gauge(durationDesc, max(0, now.Sub(run.StartTime.Time).Seconds()))
	j := run.Report
	if j == nil {
		return // there is no judgement yet
	}
	s.gauge(samplesDesc, float64(j.Canary.Requests), "canary")
	s.gauge(samplesDesc, float64(j.Baseline.Requests), "baseline")
	canary, baseline := run.Effective.Needs()
	s.required(canary, "canary")
	s.required(baseline, "baseline")
	s.some(shareDesc, j.HandledShare)
	seen := map[string]bool{}
	for _, r := range j.Metrics {
		if seen[r.Name] {
			continue
		}
		seen[r.Name] = true
		s.gauge(foundDesc, 1, r.Name, string(r.Verdict), string(r.Reason))
		s.some(pDesc, r.P, r.Name)
		s.some(valueDesc, r.Canary, r.Name, "canary")
		s.some(valueDesc, r.Baseline, r.Name, "baseline")
		s.gauge(evalueDesc, r.EFail, r.Name, "fail")
		s.gauge(evalueDesc, r.EPass, r.Name, "pass")
		s.limit(r.EFailLimit, r.Name, "fail")
		s.limit(r.EPassLimit, r.Name, "pass")
	}
}

// limit skips the zero of a metric that is not judged, such as one without data.
func (s series) limit(least float64, metric, side string) {
	if least > 0 {
		s.gauge(limitDesc, least, metric, side)
	}
}

func (s series) required(n *int64, arm string) {
	if n != nil {
		s.gauge(requiredDesc, float64(*n), arm)
	}
}

// SPDX-License-Identifier: Apache-2.0

package export

import (
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// A scrape makes several series for each Revision of each Service, with and without pods, all at the same time. Most
// of a constant metric of the Prometheus library are its labels, which are alike for all series of a Revision. So
// series share them.

// family describes the series of one name. own are the labels that they have besides revisionLabels.
type family struct {
	desc *prometheus.Desc
	own  []string
}

// series is a prometheus.Metric.
type series struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	value  float64
	labels []*dto.LabelPair
}

// Desc implements prometheus.Metric.
func (m *series) Desc() *prometheus.Desc { return m.desc }

// Write implements prometheus.Metric.
func (m *series) Write(out *dto.Metric) error {
	out.Label = m.labels
	if m.kind == prometheus.CounterValue {
		out.Counter = &dto.Counter{Value: &m.value}
	} else {
		out.Gauge = &dto.Gauge{Value: &m.value}
	}
	return nil
}

func pair(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

// pairs are labels that were made for another series of the same scrape.
type pairs map[[2]string]*dto.LabelPair

func (p pairs) of(name, value string) *dto.LabelPair {
	key := [2]string{name, value}
	if p[key] == nil {
		p[key] = pair(name, value)
	}
	return p[key]
}

// around adds labels to those of a Revision, sorted by name. Without any, the result is shared. It returns false if a
// value is not valid: one bad label must not fail the whole scrape.
func (p pairs) around(revision []*dto.LabelPair, names, values []string) ([]*dto.LabelPair, bool) {
	for _, l := range revision {
		if !utf8.ValidString(l.GetValue()) {
			return nil, false
		}
	}
	if len(names) != len(values) {
		return nil, false
	}
	if len(names) == 0 {
		return revision, true
	}
	out := make([]*dto.LabelPair, 0, len(revision)+len(names))
	add := func(before bool) {
		for i, name := range names {
			if name < revisionLabels[0] == before {
				out = append(out, p.of(name, values[i]))
			}
		}
	}
	add(true)
	out = append(out, revision...)
	add(false)
	for _, v := range values {
		if !utf8.ValidString(v) {
			return nil, false
		}
	}
	return out, true
}

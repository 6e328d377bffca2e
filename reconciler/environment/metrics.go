// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Reading says how one kind of environments is read.
type Reading struct {
	Kind        schema.GroupKind
	Readability Readability
	// Objects is the number of its objects in the cache.
	Objects int
}

// Metrics exports readings. It implements prometheus.Collector.
type Metrics func() []Reading

var (
	objectsDesc = prometheus.NewDesc("environment_objects", "Objects of this kind in the cache.",
		[]string{"group_kind"}, nil)
	readableDesc = prometheus.NewDesc("environment_kind_readable", "1 if the objects of this kind can be read, 0 if not.",
		[]string{"group_kind", "reason"}, nil)
)

// Describe implements prometheus.Collector.
func (Metrics) Describe(out chan<- *prometheus.Desc) {
	out <- objectsDesc
	out <- readableDesc
}

// Collect implements prometheus.Collector.
func (m Metrics) Collect(out chan<- prometheus.Metric) {
	for _, r := range m() {
		readable := 0.0
		if r.Readability == Readable {
			readable = 1
		}
		out <- prometheus.MustNewConstMetric(readableDesc, prometheus.GaugeValue, readable, r.Kind.String(),
			string(r.Readability))
		out <- prometheus.MustNewConstMetric(objectsDesc, prometheus.GaugeValue, float64(r.Objects), r.Kind.String())
	}
}

// Readings returns how each kind is read that is chosen and installed.
func (w *Watch) Readings() []Reading {
	var out []Reading
	for _, k := range w.all() {
		w.mu.Lock()
		r := k.readable
		w.mu.Unlock()
		if r != "" && r != Absent && r != NotChosen {
			out = append(out, Reading{Kind: k.of, Readability: r, Objects: len(k.Keys())})
		}
	}
	return out
}

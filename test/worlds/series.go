// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strconv"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape/limits"
)

// label is a label of a series.
type label struct{ name, value string }

// labels implement mapping.Labels.
type labels []label

// Get implements mapping.Labels.
func (all labels) Get(name string) string {
	for _, l := range all {
		if l.name == name {
			return l.value
		}
	}
	return ""
}

// series is one line of an exposition.
type series struct {
	name   string
	labels labels
	value  float64
	// means is what the mappings read from it. Neither name nor labels ever change, so it is looked up once.
	means []meaning
	known bool
}

type meaning struct {
	source int
	key    mapping.Key
	times  float64
}

// endpoint is what one process exports.
type endpoint struct {
	reader *mapping.Reader
	memory *scrape.Memory
	// start is the start of the process, in seconds since 1970.
	start  float64
	series []*series
}

func newEndpoint(reader *mapping.Reader, start float64) *endpoint {
	return &endpoint{reader: reader, memory: scrape.NewMemory(reader), start: start}
}

// restart forgets all that was counted, as a new process does.
func (e *endpoint) restart(start float64) { e.start, e.series = start, nil }

func (e *endpoint) add(name string, of ...label) *series {
	s := &series{name: name, labels: of}
	e.series = append(e.series, s)
	return s
}

// read returns what a scrape returns, without writing and parsing text.
func (e *endpoint) read() scrape.Exposition {
	values := make([]map[mapping.Key]float64, len(e.reader.Sources))
	for _, s := range e.series {
		if !s.known {
			s.known = true
			e.reader.Read(s.name, s.labels, func(source int, k mapping.Key, times float64) {
				s.means = append(s.means, meaning{source: source, key: k, times: times})
			})
		}
		for _, m := range s.means {
			if values[m.source] == nil {
				values[m.source] = map[mapping.Key]float64{}
			}
			values[m.source][m.key] += s.value * m.times
		}
	}
	out := scrape.Exposition{Start: e.start}
	for i, v := range values {
		if len(v) > 0 {
			out.Sources = append(out.Sources, scrape.Source{Name: e.reader.Sources[i].Name, Values: v})
		}
	}
	return out
}

// parse returns the same by way of text, as in production.
func (e *endpoint) parse() (scrape.Exposition, error) {
	return e.memory.Parse(e.text(), "text/plain; version=0.0.4", limits.Default.Series)
}

// text writes the exposition as queue-proxy and client libraries do.
func (e *endpoint) text() []byte {
	var b []byte
	for _, s := range e.series {
		b = append(b, s.name...)
		for i, l := range s.labels {
			b = append(b, "{,"[min(i, 1)])
			b = append(b, l.name...)
			b = append(b, '=')
			b = strconv.AppendQuote(b, l.value)
		}
		if len(s.labels) > 0 {
			b = append(b, '}')
		}
		b = append(b, ' ')
		b = strconv.AppendFloat(b, s.value, 'g', -1, 64)
		b = append(b, '\n')
	}
	b = append(b, "process_start_time_seconds "...)
	b = append(strconv.AppendFloat(b, e.start, 'g', -1, 64), '\n')
	return b
}

// histogram counts durations by bucket, and exports them cumulatively.
type histogram struct {
	bounds  []float64
	buckets []float64
	series  []*series
	sum     *series
	count   *series
}

// histogram adds the series of a histogram.
func (e *endpoint) histogram(family string, bounds []float64, of ...label) *histogram {
	h := &histogram{bounds: bounds, buckets: make([]float64, len(bounds)+1)}
	for i := range h.buckets {
		le := "+Inf"
		if i < len(bounds) {
			le = strconv.FormatFloat(bounds[i], 'g', -1, 64)
		}
		h.series = append(h.series, e.add(family+"_bucket", append(labels{{"le", le}}, of...)...))
	}
	h.sum, h.count = e.add(family+"_sum", of...), e.add(family+"_count", of...)
	return h
}

func (h *histogram) observe(seconds float64) {
	h.buckets[bucketOf(h.bounds, seconds)]++
	h.sum.value += seconds
	h.count.value++
}

// settle writes the buckets into the series.
func (h *histogram) settle() {
	below := 0.0
	for i, n := range h.buckets {
		below += n
		h.series[i].value = below
	}
}

// bucketOf returns the index of the first bound that is not below a value.
func bucketOf(bounds []float64, value float64) int {
	i := 0
	for i < len(bounds) && value > bounds[i] {
		i++
	}
	return i
}

// The bounds of queue-proxy, and those of client libraries.
var (
	entryBounds = []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}
	appBounds   = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
)

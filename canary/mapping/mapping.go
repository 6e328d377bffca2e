// SPDX-License-Identifier: Apache-2.0

// Package mapping translates the series of an application to figures. It is pure: it has no I/O and no
// state.
//
// Its invariants:
//   - The figures are always those of the neutral contract, whatever the application calls
//     its metrics.
//   - A series without a rule has no meaning.
package mapping

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
)

// Figure is what a series counts, in the vocabulary of the neutral contract.
type Figure string

// The figures. Counters count from the start of the process.
const (
	// Started counts requests that an entity started to handle.
	Started Figure = "started"
	// Finished counts finished requests, by outcome.
	Finished Figure = "finished"
	// Duration is a cumulative histogram of their durations in seconds.
	Duration Figure = "duration"
	// ShardFinished is Finished by shard; ShardSlow counts those above 0.5 s. They serve the judge and
	// are never exported.
	ShardFinished Figure = "shardFinished"
	ShardSlow     Figure = "shardSlow"
	// EnteredAt is Finished by the Revision where the request entered. Only the application can know
	// it, so only the neutral contract has it.
	EnteredAt Figure = "enteredAt"
	// Shards is a gauge of the shards that the pod holds.
	Shards Figure = "shards"

	// DurationSum is the sum of a Duration. Rules do not name it.
	DurationSum Figure = "durationSum"
	// EntryHTTP and EntryServing count requests that entered at a pod, by queue-proxy's two metric
	// families. EntryDuration and EntryDurationSum are their durations. Only the rules of Entry name
	// them.
	EntryHTTP        Figure = "entryHTTP"
	EntryServing     Figure = "entryServing"
	EntryDuration    Figure = "entryDuration"
	EntryDurationSum Figure = "entryDurationSum"
)

// Outcomes of a request. A mapping without outcomes gives Unknown, which is not a success.
const (
	OK      = "ok"
	Error   = "error"
	Timeout = "timeout"
	Unknown = "unknown"
)

// outcomes lists all of them, in a fixed order.
var outcomes = []string{OK, Error, Timeout, Unknown}

// Key identifies one value of one process. Series that differ only in other labels are summed.
type Key struct {
	Figure Figure
	// Entity is the entity type; empty if the mapping has none.
	Entity string
	// Outcome of Finished and ShardFinished. For the entry figures it is the status code, or Unknown if
	// the code does not show the outcome; for EnteredAt it is the name of the Revision.
	Outcome string
	Shard   string
	// Bound is the upper bound of a histogram bucket, +Inf for the last.
	Bound float64
}

// Labels are the labels of one series.
type Labels interface {
	Get(name string) string
}

// From tells where a label's value comes from: a label of the series, or a constant.
type From struct {
	// Label of the series; TrimPrefix is removed from its value.
	Label      string `json:"label,omitempty"`
	TrimPrefix string `json:"trimPrefix,omitempty"`
	// Values translates the label's value; Other replaces values that it does not list.
	Values map[string]string `json:"values,omitempty"`
	Other  string            `json:"other,omitempty"`
	// Value is the constant.
	Value string `json:"value,omitempty"`
}

func (f *From) of(l Labels) string {
	switch {
	case f == nil:
		return ""
	case f.Label == "":
		return f.Value
	}
	v := l.Get(f.Label)
	if f.Values == nil && f.Other == "" {
		return strings.TrimPrefix(v, f.TrimPrefix)
	}
	if to, ok := f.Values[v]; ok {
		return to
	}
	return f.Other
}

// Value selects one of a family's values.
type Value string

// The values.
const (
	// Counter and Gauge are the series with the family's own name.
	Counter Value = "counter"
	Gauge   Value = "gauge"
	// Count and Sum are the count and sum of a histogram or summary.
	Count Value = "count"
	Sum   Value = "sum"
	// Histogram is a whole classic histogram.
	Histogram Value = "histogram"
)

// Rule gives the series of one family a meaning.
type Rule struct {
	Figure Figure `json:"figure"`
	// Family is the name without a histogram's suffixes, but with _total.
	Family string `json:"family"`
	Value  Value  `json:"value,omitempty"`
	// Match lists labels that the series must have; a value that ends in * is a prefix.
	Match      map[string]string `json:"match,omitempty"`
	EntityType *From             `json:"entityType,omitempty"`
	Outcome    *From             `json:"outcome,omitempty"`
	Shard      *From             `json:"shard,omitempty"`

	// milliseconds means that a Histogram counts milliseconds instead of seconds.
	milliseconds bool
}

func (r *Rule) matches(l Labels) bool {
	for name, want := range r.Match {
		got := l.Get(name)
		if prefix, isPrefix := strings.CutSuffix(want, "*"); isPrefix {
			if !strings.HasPrefix(got, prefix) {
				return false
			}
			continue
		}
		if got != want {
			return false
		}
	}
	return true
}

// Mapping describes what one kind of application exports.
type Mapping struct {
	Name string
	// Runtimes are the runtimes that it applies to; empty means all.
	Runtimes []string
	Rules    []Rule
}

// Serves reports whether the mapping applies to a runtime.
func (m *Mapping) Serves(runtime string) bool {
	return len(m.Runtimes) == 0 || slices.Contains(m.Runtimes, runtime)
}

// part is the meaning of a series name to one rule.
type part struct {
	source int
	rule   *Rule
	figure Figure
	bucket bool
}

// Reader reads samples by several mappings at once. It is safe for concurrent use.
type Reader struct {
	// Sources are the mappings, the most trusted first.
	Sources []Mapping
	parts   map[string][]part
}

// NewReader returns a Reader of mappings in order of trust.
func NewReader(sources ...Mapping) *Reader {
	r := &Reader{Sources: sources, parts: map[string][]part{}}
	for i := range sources {
		for j := range sources[i].Rules {
			rule := &sources[i].Rules[j]
			add := func(name string, f Figure, bucket bool) {
				r.parts[name] = append(r.parts[name], part{source: i, rule: rule, figure: f, bucket: bucket})
			}
			switch rule.Value {
			case Count:
				add(rule.Family+"_count", rule.Figure, false)
			case Sum:
				add(rule.Family+"_sum", rule.Figure, false)
			case Histogram:
				add(rule.Family+"_bucket", rule.Figure, true)
				add(rule.Family+"_sum", sumOf(rule.Figure), false)
			case Counter, Gauge:
				add(rule.Family, rule.Figure, false)
			}
		}
	}
	return r
}

func sumOf(f Figure) Figure {
	if f == EntryDuration {
		return EntryDurationSum
	}
	return DurationSum
}

// Wants reports whether any rule names a series. It does not keep the name.
func (r *Reader) Wants(series []byte) bool { return len(r.parts[string(series)]) > 0 }

// Read calls meaning for every meaning of a series: with the mapping's index in Sources, the key, and
// the factor for the value. A bucket without a readable bound has no meaning.
func (r *Reader) Read(series string, l Labels, meaning func(source int, k Key, times float64)) {
	for _, p := range r.parts[series] {
		if !p.rule.matches(l) {
			continue
		}
		k := Key{Figure: p.figure, Entity: p.rule.EntityType.of(l), Shard: p.rule.Shard.of(l)}
		switch p.figure {
		case Finished, ShardFinished:
			k.Outcome = known(p.rule.Outcome.of(l))
		case EnteredAt:
			if k.Outcome = l.Get(entryLabel); k.Outcome == "" {
				continue // the label is missing
			}
		case EntryHTTP, EntryServing:
			k.Outcome = code(p.figure, l)
		case EntryDuration, EntryDurationSum:
			if connection(l) {
				continue
			}
		}
		times := 1.0
		if p.bucket {
			bound, err := strconv.ParseFloat(l.Get("le"), 64)
			if err != nil || math.IsNaN(bound) {
				continue
			}
			k.Bound = bound
			if p.rule.milliseconds {
				k.Bound /= 1000
			}
		} else if p.rule.milliseconds && p.rule.Value == Histogram {
			times = 1.0 / 1000
		}
		meaning(p.source, k, times)
	}
}

// hintLength limits what a hint quotes from the application.
const hintLength = 40

// Hint explains why a series of finished requests does not show how they ended. It is empty if it does,
// or if its mapping says that it cannot.
func (r *Reader) Hint(series string, l Labels) string {
	for _, p := range r.parts[series] {
		from := p.rule.Outcome
		if (p.figure != Finished && p.figure != ShardFinished) || from == nil || from.Label == "" || !p.rule.matches(l) ||
			known(from.of(l)) != Unknown {
			continue
		}
		var said string
		switch got := l.Get(from.Label); {
		case got == Unknown:
			continue // the mapping says that it does not know
		case got != "":
			said = fmt.Sprintf("%s has %s=%q", series, from.Label, sanitize.Truncate(got, hintLength))
		default:
			said = fmt.Sprintf("%s has no label %s, but %s", series, from.Label, labelNames(l))
		}
		return said + "; known values are " + from.values()
	}
	return ""
}

// values returns the values that stand for an outcome other than Unknown.
func (f *From) values() string {
	if f.Values == nil {
		return strings.Join(outcomes[:len(outcomes)-1], ", ")
	}
	var all []string
	for _, v := range slices.Sorted(maps.Keys(f.Values)) {
		all = append(all, sanitize.Truncate(v, hintLength))
	}
	return strings.Join(all[:min(len(all), 10)], ", ")
}

// labelNames returns a few of a series' label names.
func labelNames(l Labels) string {
	named, ok := l.(interface{ Map() map[string]string })
	if !ok {
		return "others"
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(named.Map())) {
		if name != "__name__" {
			all = append(all, sanitize.Truncate(name, hintLength))
		}
	}
	if len(all) == 0 {
		return "none at all"
	}
	return strings.Join(all[:min(len(all), 5)], ", ")
}

// known turns an undefined outcome into Unknown, because an application may export any value.
func known(outcome string) string {
	if slices.Contains(outcomes, outcome) {
		return outcome
	}
	return Unknown
}

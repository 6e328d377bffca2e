// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
)

// Why a sample was rejected.
const (
	// RejectedValue: NaN, infinite, negative, or above 1e18, or more shards than a pod can hold.
	RejectedValue = "not_a_count"
	// RejectedFall: it fell without a counter reset of its process.
	RejectedFall = "fell"
	// RejectedJump: it rose faster than any process can count.
	RejectedJump = "jumped"
	// RejectedEntity was counted as another entity type, and RejectedShard without its shard, because
	// there are too many.
	RejectedEntity = "entity_types"
	RejectedShard  = "shards"
	// RejectedBound is a bucket whose bound exceeds the limit.
	RejectedBound = "bounds"
	// RejectedTwice appeared before in the same scrape.
	RejectedTwice = "duplicate"
)

// Rejections returns all reasons, in a fixed order.
func Rejections() []string {
	return []string{RejectedValue, RejectedFall, RejectedJump, RejectedEntity, RejectedShard, RejectedBound, RejectedTwice}
}

const (
	// patience is how many rejected readings in a row make a series count from its new value.
	patience = 3
	// fastest is the most that a process may count in a second.
	fastest = 1e6
)

// mark is the last accepted value of a counter.
type mark struct {
	value float64
	// gone is what it had counted before it fell for good.
	gone float64
	fall fall
	// odd counts the rejected readings in a row.
	odd int
	// reading is the number of the last reading that had the counter.
	reading uint64
}

// process is what one pod counts at one port, from one start to the next.
type process struct {
	last   map[mapping.Key]mark
	source string
	start  float64
	// container is the last one seen that serves the port. expected means that a reset was noticed before the
	// container changed.
	container string
	expected  bool
	// announced means that the last reading came with a new container, but from the old process.
	announced bool
	doubt     *doubt
	read      bool
	// since is the first reading of the process, at the last one.
	since, at time.Time
	// reading is the number of the last reading.
	reading uint64
}

// step is what one reading adds.
type step struct {
	deltas   map[mapping.Key]float64
	rejected map[string]int
	// hidden counts requests of which it is not known how they ended, because the counter fell that knew. fell means
	// that such a counter is lower than it was.
	hidden map[mapping.Key]float64
	fell   bool
	// reset means that the process restarted; open is what it had started before and not finished.
	reset bool
	open  float64
}

func (s *step) reject(reason string) {
	if s.rejected == nil {
		s.rejected = map[string]int{}
	}
	s.rejected[reason]++
}

// advance takes a reading. old means that the process may have counted before the watch began, so its
// first values are only the base. values returns those of the chosen source.
func (p *process) advance(e scrape.Exposition, values func(scrape.Source) map[mapping.Key]float64, old bool,
	container string, at time.Time,
) step {
	var s step
	p.reading++
	first := !p.read
	source, better := p.choose(e.Sources)
	var now map[mapping.Key]float64
	if source != nil {
		now = values(*source)
	}
	var missed *doubt
	if !first {
		is := p.identify(e, now, container, at)
		if missed = is.missed; is.restarted {
			s.reset, s.open = true, p.open()
			p.last, p.source, p.since = nil, "", at
			if source, better = p.choose(e.Sources); source != nil {
				now = values(*source)
			}
		}
	} else {
		p.since = at
	}
	if p.last == nil {
		p.last = map[mapping.Key]mark{}
	}
	if source != nil {
		p.source = source.Name
	}
	elapsed := max(at.Sub(p.at), time.Second).Seconds()
	if p.at.IsZero() {
		elapsed = 3600 // unknown; it may have counted for a long time
	}
	s.deltas = make(map[mapping.Key]float64, len(now))
	for k, v := range now {
		p.count(k, v, first && old, elapsed, &s)
	}
	if missed != nil {
		s.makeUp(missed)
	}
	if better != nil {
		// Switch to the better source. The other one counted everything up to now.
		p.source, p.last = better.Name, map[mapping.Key]mark{}
		for k, v := range values(*better) {
			p.last[k] = mark{value: v, reading: p.reading}
		}
	}
	p.tidy(len(now))
	p.start, p.container, p.at, p.read = e.Start, cmp.Or(container, p.container), at, true
	return s
}

func (p *process) count(k mapping.Key, v float64, baseline bool, elapsed float64, s *step) {
	if k.Figure == mapping.Shards {
		return
	}
	was, had := p.last[k]
	odd := ""
	switch {
	case v < was.value:
		odd = RejectedFall
	case !had && baseline:
	case v-was.value > fastest*elapsed:
		odd = RejectedJump
	default:
		s.deltas[k] = v - was.value
	}
	if odd == "" {
		p.last[k] = mark{value: v, gone: was.gone, reading: p.reading}
		return
	}
	s.reject(odd)
	if odd == RejectedFall {
		was.fall.to(v)
		s.fell = s.fell || unknownOf(k) != k
	}
	// Keep the accepted value as the base, so a single false value loses nothing.
	if was.odd++; was.odd >= patience {
		was = was.begun(v, k, s)
	}
	was.reading = p.reading
	p.last[k] = was
}

// fewForgotten is how many series that are no longer exported are always kept; they may return.
const fewForgotten = 256

// tidy drops series that are missing from the last reading once there are many. An application that
// keeps exporting new ones must not use ever more memory.
func (p *process) tidy(told int) {
	if len(p.last) <= 2*told+fewForgotten {
		return
	}
	maps.DeleteFunc(p.last, func(_ mapping.Key, m mark) bool { return m.reading != p.reading })
}

// choose returns the trusted source, and a better one if it has appeared. The sources come in order of
// trust.
func (p *process) choose(all []scrape.Source) (believed, better *scrape.Source) {
	for i := range all {
		if !countsRequests(all[i].Values) {
			continue
		}
		switch {
		case p.source == "" || all[i].Name == p.source:
			return &all[i], better
		case better == nil:
			better = &all[i]
		}
	}
	// The trusted source is silent; it may return.
	return nil, nil
}

// silent reports whether the trusted source is missing from the reading.
func (p *process) silent(all []scrape.Source) bool {
	return p.source != "" && !slices.ContainsFunc(all,
		func(s scrape.Source) bool { return s.Name == p.source && countsRequests(s.Values) })
}

func countsRequests(values map[mapping.Key]float64) bool {
	for k := range values {
		switch k.Figure {
		case mapping.Finished, mapping.Started, mapping.EntryHTTP, mapping.EntryServing:
			return true
		}
	}
	return false
}

// open returns how many requests it started and did not finish. It counts each entity type by itself,
// because one type does not finish what another started.
func (p *process) open() float64 {
	started, finished, _ := p.byEntity()
	open := 0.0
	for entity, n := range started {
		open += max(0, n-finished[entity])
	}
	return open
}

// startsUnknown reports whether some entity type counts finished requests and no starts. Its finished
// requests would hide the hanging ones of other types.
func (p *process) startsUnknown() bool {
	_, _, unknown := p.byEntity()
	return unknown
}

// byEntity returns what each entity type started and finished. If either figure exists only for all
// types together, the other is summed too.
func (p *process) byEntity() (started, finished map[string]float64, unknown bool) {
	started, finished = p.entities(mapping.Started), p.entities(mapping.Finished)
	if together(started) || together(finished) {
		started, finished = map[string]float64{AllEntities: sum(started)}, map[string]float64{AllEntities: sum(finished)}
	}
	for entity, n := range finished {
		unknown = unknown || n > 0 && started[entity] == 0
	}
	return started, finished, unknown
}

func (p *process) entities(f mapping.Figure) map[string]float64 {
	out := map[string]float64{}
	for k, m := range p.last {
		if k.Figure == f {
			out[k.Entity] += m.total()
		}
	}
	return out
}

// together reports whether a figure exists only for all entity types together.
func together(by map[string]float64) bool {
	_, all := by[AllEntities]
	return all && len(by) == 1
}

func (p *process) sum(f mapping.Figure) float64 {
	total := 0.0
	for k, m := range p.last {
		if k.Figure == f {
			total += m.total()
		}
	}
	return total
}

// counts reports whether the process exports the figure.
func (p *process) counts(f mapping.Figure) bool {
	for k := range p.last {
		if k.Figure == f {
			return true
		}
	}
	return false
}

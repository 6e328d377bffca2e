package attribution

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
)

// Why a sample was not counted.
const (
	// RejectedValue: NaN, infinite or negative; or more shards than a pod can hold.
	RejectedValue = "not_a_count"
	// RejectedFall: it fell, and its process did not start again.
	RejectedFall = "fell"
	// RejectedJump: it rose faster than any process can count.
	RejectedJump = "jumped"
	// RejectedEntity was counted under another entity type, and RejectedShard was
	// not counted by shard, because there are too many of them.
	RejectedEntity = "entity_types"
	RejectedShard  = "shards"
	// RejectedBound is a bucket whose bound is one too many.
	RejectedBound = "bounds"
	// RejectedTwice was told before in the same answer.
	RejectedTwice = "duplicate"
)

// Rejections are all reasons, in a fixed order.
func Rejections() []string {
	return []string{RejectedValue, RejectedFall, RejectedJump, RejectedEntity, RejectedShard, RejectedBound, RejectedTwice}
}

const (
	// sameStart is how much the start of one process may seem to change: the kernel
	// derives it from the time of boot, which moves as the clock is set.
	sameStart = 2.0
	// patience is how often in a row a series must not be believed before what it says
	// is where counting goes on from.
	patience = 3
	// fastest is what a process may count in a second.
	fastest = 1e6
)

// mark is the last value of a counter that was believed.
type mark struct {
	value float64
	// odd readings in a row that were not believed.
	odd int
	// reading that told it last.
	reading uint64
}

// process is what one pod counts at one of its ports, from one start to the next.
type process struct {
	last   map[mapping.Key]mark
	source string
	start  float64
	// incarnation that was seen last; expected: a restart was noticed before the
	// incarnation told of it.
	incarnation string
	expected    bool
	read        bool
	at          time.Time
	// reading is the number of the last one.
	reading uint64
}

// step is what one reading adds.
type step struct {
	deltas   map[mapping.Key]float64
	rejected map[string]int
	// reset: the process started again, and this is what it had begun before and
	// not finished.
	reset bool
	open  float64
}

func (s *step) reject(reason string) {
	if s.rejected == nil {
		s.rejected = map[string]int{}
	}
	s.rejected[reason]++
}

// advance takes a reading. old says that the process may have counted before anybody
// watched, so that its first values are where counting begins. values are those of
// the chosen source.
func (p *process) advance(e scrape.Exposition, values func(scrape.Source) map[mapping.Key]float64, old bool, incarnation string, at time.Time) step {
	var s step
	p.reading++
	first := !p.read
	source, better := p.choose(e.Sources)
	var now map[mapping.Key]float64
	if source != nil {
		now = values(*source)
	}
	if !first && p.restarted(e, now, incarnation) {
		s.reset, s.open = true, p.open()
		p.last, p.source = nil, ""
		if source, better = p.choose(e.Sources); source != nil {
			now = values(*source)
		}
	}
	if p.last == nil {
		p.last = map[mapping.Key]mark{}
	}
	if source != nil {
		p.source = source.Name
	}
	elapsed := max(at.Sub(p.at), time.Second).Seconds()
	if p.at.IsZero() {
		elapsed = 3600 // unknown; it may have counted since long
	}
	s.deltas = make(map[mapping.Key]float64, len(now))
	for k, v := range now {
		p.count(k, v, first && old, elapsed, &s)
	}
	if better != nil {
		// From now on the better source is believed, and what it counted until now
		// was counted by the other.
		p.source, p.last = better.Name, map[mapping.Key]mark{}
		for k, v := range values(*better) {
			p.last[k] = mark{value: v, reading: p.reading}
		}
	}
	p.tidy(len(now))
	p.start, p.incarnation, p.at, p.read = e.Start, incarnation, at, true
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
		p.last[k] = mark{value: v, reading: p.reading}
		return
	}
	s.reject(odd)
	// What was believed stays the base, so that a single lie loses nothing.
	if was.odd++; was.odd >= patience {
		was = mark{value: v}
	}
	was.reading = p.reading
	p.last[k] = was
}

// few series that are not told any more are remembered in any case: they may come back.
const fewForgotten = 256

// tidy forgets series that the last reading did not tell, where they are many: an
// application that always tells others must not be remembered for ever.
func (p *process) tidy(told int) {
	if len(p.last) <= 2*told+fewForgotten {
		return
	}
	maps.DeleteFunc(p.last, func(_ mapping.Key, m mark) bool { return m.reading != p.reading })
}

// choose returns the source that is believed, and a better one if it has come since.
// They are given in the order of trust.
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
	// What was believed has gone silent; it may come back.
	return nil, nil
}

// silent says that the source that is believed is not among what was read.
func (p *process) silent(all []scrape.Source) bool {
	return p.source != "" && !slices.ContainsFunc(all, func(s scrape.Source) bool { return s.Name == p.source && countsRequests(s.Values) })
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

// restarted says whether the process is another one than before. Where it tells when
// it started, only that counts. Otherwise most of its counters must have fallen, or
// its container was started again; the two may be noticed in any order.
func (p *process) restarted(e scrape.Exposition, now map[mapping.Key]float64, incarnation string) bool {
	if e.Start > 0 && p.start > 0 {
		return math.Abs(e.Start-p.start) > sameStart
	}
	fell, stood := 0, 0
	for k, v := range now {
		was := p.last[k]
		switch {
		case k.Figure == mapping.Shards || was.value == 0:
		case v < was.value:
			fell++
		default:
			stood++
		}
	}
	most := fell > 0 && fell >= stood
	told := incarnation != "" && p.incarnation != "" && incarnation != p.incarnation
	switch {
	case told && p.expected && !most:
		p.expected = false
		return false
	case told:
		p.expected = false
		return true
	case most:
		p.expected = true
	}
	return most
}

// open is how many requests it has begun and not finished, of each entity type by itself:
// what one finishes another has not begun.
func (p *process) open() float64 {
	started, finished, _ := p.byEntity()
	open := 0.0
	for entity, n := range started {
		open += max(0, n-finished[entity])
	}
	return open
}

// startsUnknown says that some entity type finishes requests and counts none that begins:
// then others that hang would be hidden behind what it finishes.
func (p *process) startsUnknown() bool {
	_, _, unknown := p.byEntity()
	return unknown
}

// byEntity is what each entity type has begun and finished. Where one of both is told of
// all together, so is the other.
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
			out[k.Entity] += m.value
		}
	}
	return out
}

// together says that a figure is told of all entity types only.
func together(by map[string]float64) bool {
	_, all := by[AllEntities]
	return all && len(by) == 1
}

func (p *process) sum(f mapping.Figure) float64 {
	total := 0.0
	for k, m := range p.last {
		if k.Figure == f {
			total += m.value
		}
	}
	return total
}

// counts says whether it counts a figure at all.
func (p *process) counts(f mapping.Figure) bool {
	for k := range p.last {
		if k.Figure == f {
			return true
		}
	}
	return false
}

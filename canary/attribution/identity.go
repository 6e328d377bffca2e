// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"maps"
	"math"
	"time"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
)

// A process is known by its pod and by the container that serves the port. Its start time only supports
// them, because the kernel derives it from the boot time, which moves whenever the node's clock is set.
// A counter that goes on is the same process, whatever its start time says. But a busy process may
// overtake the counts of the one before it between two readings. Then the container tells, maybe later,
// because the kubelet reports it with a delay, and never before the reading: a target names its container
// before it is scraped, so a new one means a new process. Where it is not known which container serves the
// port, only start times and falling counters tell.

const (
	// sameStart is how far the start time of one process may move, in seconds.
	sameStart = 2.0
	// toldWithin is how long after a restart the kubelet may report it.
	toldWithin = time.Minute
)

// identity says which process was read.
type identity struct {
	// restarted means a new process. missed is what the one before had counted if the process was new at
	// an earlier reading, and was taken for the old one since.
	restarted bool
	missed    *doubt
}

// doubt is a reading that may have been the first of a new process: what the old one had counted.
type doubt struct {
	at   time.Time
	last map[mapping.Key]mark
	open float64
}

// makeUp counts what a new process had counted at its first reading, which was taken for the old one's
// and so counted only beyond that.
func (s *step) makeUp(missed *doubt) {
	s.reset, s.open = true, missed.open
	for k, m := range missed.last {
		if _, counted := s.deltas[k]; counted {
			s.deltas[k] += m.value
		}
	}
}

// identify tells which process a reading is of.
func (p *process) identify(e scrape.Exposition, now map[mapping.Key]float64, container string,
	at time.Time,
) identity {
	fell, stood := falls(now, func(k mapping.Key) float64 { return p.last[k].value })
	told := container != "" && p.container != "" && container != p.container
	if p.doubt != nil && at.Sub(p.doubt.at) > toldWithin {
		p.doubt = nil
	}
	var is identity
	if e.Start > 0 && p.start > 0 {
		is = p.byStart(e.Start-p.start, fell, stood, told, container != "", at)
	} else {
		is.restarted = p.byCounts(fell > 0 && fell >= stood, told)
	}
	if is.restarted || is.missed != nil {
		p.announced, p.doubt = false, nil
	}
	return is
}

// byStart decides for a process that exports its start time, which moved by some seconds.
func (p *process) byStart(moved float64, fell, stood int, told, known bool, at time.Time) identity {
	most, announced := fell > 0 && fell >= stood, p.announced
	p.announced = false
	if math.Abs(moved) <= sameStart {
		if told && !most && p.doubt != nil {
			return identity{missed: p.doubt}
		}
		p.announced = told && !most
		return identity{restarted: told && most}
	}
	// A restart moves the start time by at least as long as the old process was read.
	watched := p.at.Sub(p.since).Seconds()
	switch {
	case told, announced, most:
		return identity{restarted: true}
	case moved < watched-sameStart:
		return identity{}
	case fell > 0, !known && watched > 0:
		return identity{restarted: true}
	}
	p.doubt = &doubt{at: at, last: p.last, open: p.open()}
	p.last = maps.Clone(p.last)
	return identity{}
}

// byCounts decides for a process without a start time: most counters must have fallen, or the container that
// serves them must have restarted, which counts even if no counter fell, because the new process may have
// overtaken the old one. Either may be noticed first.
func (p *process) byCounts(most, told bool) bool {
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

// restarted reports whether a process that another reader knew is a new one. Nothing is known of the time
// between the readers.
func (c counters) restarted(was counters) bool {
	fell, stood := falls(c.Values, func(k mapping.Key) float64 { return was.Values[k] })
	most := fell > 0 && fell >= stood
	known := c.Container != "" && was.Container != ""
	told := known && c.Container != was.Container
	if c.Start > 0 && was.Start > 0 {
		if math.Abs(c.Start-was.Start) <= sameStart {
			return told && most
		}
		return told || fell > 0
	}
	if known {
		return told || most
	}
	for k, v := range was.Values {
		if c.Values[k] < v {
			return true
		}
	}
	return false
}

// falls counts the counters that are lower than they were, and those that are not.
func falls(now map[mapping.Key]float64, was func(mapping.Key) float64) (fell, stood int) {
	for k, v := range now {
		switch before := was(k); {
		case k.Figure == mapping.Shards || before == 0:
		case v < before:
			fell++
		default:
			stood++
		}
	}
	return fell, stood
}

// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// ShareWindow is how far back the observed share looks.
const ShareWindow = 5 * time.Minute

// point is a value at one moment.
type point[T any] struct {
	at time.Time
	is T
}

// remember appends a point to a window, unless the window is full.
func remember[T any](points []point[T], at time.Time, is T, window time.Duration, most int) []point[T] {
	if n := len(points); n > 0 && at.Sub(points[n-1].at) < window/time.Duration(most) {
		return points
	}
	return recent(append(points, point[T]{at: at, is: is}), at, window)
}

// recent drops the points from before a window, except the last one: it is the base.
func recent[T any](points []point[T], now time.Time, window time.Duration) []point[T] {
	old := 0
	for old+1 < len(points) && now.Sub(points[old+1].at) >= window {
		old++
	}
	return slices.Delete(points, 0, old)
}

// pointsOfShares limits the memory: there are at most twice as many points.
const pointsOfShares = 30

// split remembers how much every Revision had handled, for one window. What a point says holds until the next one.
type split struct {
	points []point[[]amount]
	// late is what changed too soon after the last point for another one, if anything did. It becomes one before the
	// next: after the last pod of a Service, there is no next reading.
	late *point[[]amount]
}

// amount is how much a Revision had handled, if anything.
type amount struct {
	revision types.UID
	requests float64
}

// amountOf returns how much a Revision had handled.
func amountOf(all []amount, revision types.UID) float64 {
	for _, h := range all {
		if h.revision == revision {
			return h.requests
		}
	}
	return 0
}

// note adds a point, unless it says what the last one says.
func (s *split) note(at time.Time, by map[types.UID]float64) {
	if last := s.last(); last != nil && sameAmounts(last.is, by) {
		s.points = recent(s.points, at, ShareWindow)
		return
	}
	is := make([]amount, 0, len(by))
	for uid, n := range by {
		if n > 0 {
			is = append(is, amount{revision: uid, requests: n})
		}
	}
	if n := len(s.points); n > 0 && at.Sub(s.points[n-1].at) < ShareWindow/pointsOfShares {
		s.late = &point[[]amount]{at: at, is: is}
		return
	}
	s.keepLate()
	s.points = recent(append(s.points, point[[]amount]{at: at, is: is}), at, ShareWindow)
}

// last is the newest that is known, nil if nothing is.
func (s *split) last() *point[[]amount] {
	if s.late != nil || len(s.points) == 0 {
		return s.late
	}
	return &s.points[len(s.points)-1]
}

// keepLate makes a point of what came too soon for one.
func (s *split) keepLate() {
	if s.late != nil {
		s.points, s.late = append(s.points, *s.late), nil
	}
}

// sameAmounts reports whether a point has the same requests.
func sameAmounts(all []amount, by map[types.UID]float64) bool {
	known := 0
	for uid, n := range by {
		if n != amountOf(all, uid) {
			return false
		}
		if n > 0 {
			known++
		}
	}
	return known == len(all)
}

// since returns what was handled in the window, by Revision and in total; false if nothing was watched.
func (s *split) since(at time.Time, now map[types.UID]float64) (by map[types.UID]float64, all float64, ok bool) {
	if s.late != nil && at.Sub(s.late.at) >= ShareWindow {
		s.keepLate() // all of it was handled before the window
	}
	s.points = recent(s.points, at, ShareWindow)
	if len(s.points) == 0 {
		return nil, 0, false
	}
	by = map[types.UID]float64{}
	for uid, n := range now {
		d := max(0, n-amountOf(s.points[0].is, uid))
		by[uid] = d
		all += d
	}
	return by, all, true
}

// flight remembers the requests in flight in one process.
type flight struct{ points []point[underway] }

// underway is the requests in flight at one moment.
type underway struct {
	// open counts requests that started and did not finish, finished counts all that finished, and took
	// is their total duration.
	open, finished, took float64
}

// keepFlight is the longest request timeout that can be checked: Serving's default limit is 10 min.
// pointsOfFlight limits the memory.
const (
	keepFlight     = 20 * time.Minute
	pointsOfFlight = 120
)

func (f *flight) note(at time.Time, open, took, finished float64) {
	f.points = remember(f.points, at, underway{open: open, took: took, finished: finished}, keepFlight, pointsOfFlight)
}

// overdue returns how many requests started longer ago than the timeout and are not finished; false if
// they were not watched for that long.
//
// Counters do not tell which request finished. If more requests were open then than finished since, the
// difference is certainly overdue. With much traffic that finds few, but a hanging request is open in
// every reading of the window. So the smallest number of open requests is overdue too, less the average
// number in flight, which Little's law derives from the sum of the durations.
func (f *flight) overdue(now time.Time, timeout time.Duration, timed bool) (float64, bool) {
	first := -1
	for i, p := range f.points {
		if now.Sub(p.at) >= timeout {
			first = i
		}
	}
	if first < 0 {
		return 0, false
	}
	then, last := f.points[first], f.points[len(f.points)-1]
	certain := then.is.open + then.is.finished - last.is.finished
	if !timed {
		return max(0, certain), true
	}
	fewest := math.Inf(1)
	for _, p := range f.points[first:] {
		fewest = min(fewest, p.is.open)
	}
	busy := 0.0
	if span := last.at.Sub(then.at).Seconds(); span > 0 {
		busy = math.Floor((last.is.took - then.is.took) / span)
	}
	return max(0, certain, fewest-busy), true
}

// cut finds requests that Serving's own metric family of queue-proxy saw fail and net/http's did not:
// those that broke off in the middle of an answer.
type cut struct {
	base, before, told float64
	noted              bool
}

// internalServerError is how Serving counts them.
const internalServerError = "500"

// note returns how many were added. The two families are written one after the other, and a reading may
// fall in between, so it counts only what two readings in a row show.
func (c *cut) note(p *process, reset, baseline bool) float64 {
	if reset {
		*c = cut{}
	}
	gap := 0.0
	for k, m := range p.last {
		if k.Outcome != internalServerError {
			continue
		}
		if m.odd > 0 {
			return 0 // What it counts is in doubt.
		}
		switch k.Figure {
		case mapping.EntryServing:
			gap += m.total()
		case mapping.EntryHTTP:
			gap -= m.total()
		}
	}
	if baseline {
		c.base = gap
	}
	gap -= c.base
	sure := 0.0
	if c.noted {
		sure = min(gap, c.before)
	}
	c.before, c.noted = gap, true
	if sure <= c.told {
		return 0
	}
	more := sure - c.told
	c.told = sure
	return more
}

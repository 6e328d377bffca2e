package attribution

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// ShareWindow is how far back the real share looks.
const ShareWindow = 5 * time.Minute

// point is what was so at one moment.
type point[T any] struct {
	at time.Time
	is T
}

// remember adds a point to those of a window, unless that has as many as it may.
func remember[T any](points []point[T], at time.Time, is T, window time.Duration, most int) []point[T] {
	if n := len(points); n > 0 && at.Sub(points[n-1].at) < window/time.Duration(most) {
		return points
	}
	points = append(points, point[T]{at: at, is: is})
	// One point that is older than the window is kept, to begin from.
	for len(points) > 1 && at.Sub(points[1].at) >= window {
		points = points[1:]
	}
	return points
}

// pointsOfShares bounds the memory.
const pointsOfShares = 30

// split remembers how much every Revision had handled, for one window.
type split struct {
	points []point[map[types.UID]float64]
}

func (s *split) note(at time.Time, handled map[types.UID]float64) {
	s.points = remember(s.points, at, handled, ShareWindow, pointsOfShares)
}

// since is what was handled in the window, by Revision and in all; false where it
// was not watched at all.
func (s *split) since(now map[types.UID]float64) (by map[types.UID]float64, all float64, ok bool) {
	if len(s.points) == 0 {
		return nil, 0, false
	}
	by = map[types.UID]float64{}
	for uid, n := range now {
		d := max(0, n-s.points[0].is[uid])
		by[uid] = d
		all += d
	}
	return by, all, true
}

// flight remembers how many requests were on their way in one process.
type flight struct{ points []point[underway] }

// underway is how that is at one moment.
type underway struct {
	// open were started and not finished, finished is all that were, and took is
	// the time that those took.
	open, finished, took float64
}

// keepFlight is the longest request time-out that can be told: Serving's own limit
// is 10 min as it is installed. pointsOfFlight bounds the memory.
const (
	keepFlight     = 20 * time.Minute
	pointsOfFlight = 120
)

func (f *flight) note(at time.Time, open, took, finished float64) {
	f.points = remember(f.points, at, underway{open: open, took: took, finished: finished}, keepFlight, pointsOfFlight)
}

// overdue is how many requests were started longer ago than the time-out and are
// not finished; false where it was not watched for so long.
//
// Counters do not tell which request is finished. As many as were started by then
// and have not been finished since, by whichever, are overdue for certain. Where
// others were finished meanwhile, that says little; but a request that hangs is open
// in every reading of the window. The fewest that were open, less those that were
// open on average because requests take their time (which the sum of the durations
// tells, by Little's law), are overdue as well.
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

// cut finds the requests that Serving's own family of queue-proxy saw fail, and
// net/http's did not: those that were broken off in the middle of an answer.
type cut struct {
	base, before, told float64
	noted              bool
}

// internalServerError is what Serving counts them as.
const internalServerError = "500"

// note returns how many more there are. The two families are written one after the
// other, so that one reading may lie between: only what two readings in a row
// show is believed.
func (c *cut) note(p *process, reset, baseline bool) float64 {
	gap := 0.0
	for k, m := range p.last {
		if k.Outcome != internalServerError {
			continue
		}
		switch k.Figure {
		case mapping.EntryServing:
			gap += m.value
		case mapping.EntryHTTP:
			gap -= m.value
		}
	}
	if reset {
		*c = cut{}
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

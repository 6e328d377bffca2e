package attribution

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// ShareWindow is how far back the real share looks.
const ShareWindow = 5 * time.Minute

// split remembers how much every Revision had handled, for one window.
type split struct{ points []splitPoint }

type splitPoint struct {
	at      time.Time
	handled map[types.UID]float64
}

// note adds a point, but not more than some thirty in a window.
func (s *split) note(at time.Time, handled map[types.UID]float64) {
	if n := len(s.points); n > 0 && at.Sub(s.points[n-1].at) < ShareWindow/30 {
		return
	}
	s.points = append(s.points, splitPoint{at: at, handled: handled})
	// One point that is older than the window is kept, to begin from.
	for len(s.points) > 1 && at.Sub(s.points[1].at) >= ShareWindow {
		s.points = s.points[1:]
	}
}

// since is what was handled in the window, by Revision and in all; false where it
// was not watched at all.
func (s *split) since(now map[types.UID]float64) (by map[types.UID]float64, all float64, ok bool) {
	if len(s.points) == 0 {
		return nil, 0, false
	}
	by = map[types.UID]float64{}
	for uid, n := range now {
		d := max(0, n-s.points[0].handled[uid])
		by[uid] = d
		all += d
	}
	return by, all, true
}

// flight remembers how many requests were on their way in one process.
type flight struct {
	points []flightPoint
}

type flightPoint struct {
	at time.Time
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
	if n := len(f.points); n > 0 && at.Sub(f.points[n-1].at) < keepFlight/pointsOfFlight {
		return
	}
	f.points = append(f.points, flightPoint{at: at, open: open, took: took, finished: finished})
	for len(f.points) > 1 && at.Sub(f.points[1].at) >= keepFlight {
		f.points = f.points[1:]
	}
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
	certain := then.open + then.finished - last.finished
	if !timed {
		return max(0, certain), true
	}
	fewest := math.Inf(1)
	for _, p := range f.points[first:] {
		fewest = min(fewest, p.open)
	}
	busy := 0.0
	if span := last.at.Sub(then.at).Seconds(); span > 0 {
		busy = math.Floor((last.took - then.took) / span)
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

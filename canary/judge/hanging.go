package judge

import (
	"fmt"
	"math"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// A request that hangs is finished by nobody, and so in no counter, until its time-out.
// But it is open. How many are open at a moment is a Poisson number whatever the
// distribution of durations is (M/G/∞), so that the open requests of two sides that are
// alike are to each other as the requests that they begin.
//
// Requests of some shards take longer than those of others, and it is chance which shards
// a side has. So what its own finished requests explain is not held against the canary: on
// average as many are open as the seconds that they take in a second (Little 1961).
//
// To begin with a canary may be cold, and any side may stall for some seconds. So what is
// compared is the fewest that the canary had open in a minute with the most that the
// baseline had.

// Of the requests that are open.
const (
	// openRatio is how many times as many as its share gives the canary may have open.
	openRatio = 3
	// fewestHanging are no witnesses yet.
	fewestHanging = 5
	// openHistory is how far back readings are kept, and openReadings how many of them.
	openHistory  = time.Minute
	openReadings = 16
	// holdRatio of the requests that the canary began may be open beyond what the
	// baseline explains before a Pass must wait, and holdDeviations is how sure that is.
	holdRatio      = 0.005
	holdDeviations = 2
)

// openAnalyses are when a canary may fail for its open requests, since the run began.
var openAnalyses = []time.Duration{2 * time.Minute, 3 * time.Minute, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute}

// openings is what a run knows of the requests that are open.
type openings struct {
	// Readings of the last minute.
	Readings []openReading `json:"readings,omitempty"`
	// Begun since judging began.
	Begun sides `json:"begun,omitzero"`
	// Took is how many seconds the canary's requests took that were finished since then.
	Took float64 `json:"took,omitempty"`
	// Analyses that were done. Failed never becomes false again.
	Analyses int  `json:"looks,omitempty"`
	Failed   bool `json:"failed,omitempty"`
	// Uncounted: nobody counts what is open. Unknown says why the last window did not tell
	// how many are, and Short why it did not tell whether some are overdue. Timeout is that
	// of the canary's requests.
	Uncounted bool          `json:"uncounted,omitempty"`
	Unknown   string        `json:"unknown,omitempty"`
	Short     string        `json:"short,omitempty"`
	Timeout   time.Duration `json:"timeout,omitempty"`
}

// openReading is one moment, At after the run began, and what was begun until then.
type openReading struct {
	At    time.Duration `json:"at"`
	Open  sides         `json:"open,omitzero"`
	Begun sides         `json:"begun,omitzero"`
	Took  float64       `json:"took,omitempty"`
}

// add takes a window that is judged and ended so long after the run began.
func (o *openings) add(w Window, elapsed time.Duration) {
	o.Timeout = max(0, w.RequestTimeout)
	o.Short = w.Canary.OverdueUnknown
	if o.Unknown = w.Canary.OpenUnknown; o.Unknown == "" {
		o.Unknown = w.Baseline.OpenUnknown
	}
	o.Uncounted = w.Canary.StartedUnknown || w.Baseline.StartedUnknown
	if o.Uncounted || o.Unknown != "" {
		// What was open before says nothing of what is now.
		o.Readings = nil
		return
	}
	o.Begun.Canary += whole(w.Canary.Started, 0).N
	o.Begun.Baseline += whole(w.Baseline.Started, 0).N
	if took := w.Canary.Took; took > 0 && !math.IsInf(took, 1) {
		o.Took += took
	}
	open := sides{Canary: whole(w.Canary.Open, 0).N, Baseline: whole(w.Baseline.Open, 0).N}
	if n := len(o.Readings); n > 1 && elapsed-o.Readings[n-2].At < openHistory/openReadings {
		// Windows are short: one reading stands for several, with what speaks least against
		// the canary.
		last := &o.Readings[n-1]
		open = sides{Canary: min(open.Canary, last.Open.Canary), Baseline: max(open.Baseline, last.Open.Baseline)}
		o.Readings = o.Readings[:n-1]
	}
	o.Readings = append(o.Readings, openReading{At: elapsed, Open: open, Begun: o.Begun, Took: o.Took})
	for len(o.Readings) > 1 && elapsed-o.Readings[1].At >= openHistory {
		o.Readings = o.Readings[1:]
	}
}

// share of the canary in the requests that were begun: since the split or in the last
// minute, whichever is more. It is 0 where nothing was begun.
func (o *openings) share() float64 {
	of := func(s sides) float64 { return s.Canary / max(1, s.Canary+s.Baseline) }
	last := o.Readings[len(o.Readings)-1].Begun
	first := o.Readings[0].Begun
	return max(of(last), of(sides{Canary: last.Canary - first.Canary, Baseline: last.Baseline - first.Baseline}))
}

// explained is how many requests the canary should have open by how long those took that it
// finished, in the last minute.
func (o *openings) explained() float64 {
	first, last := o.Readings[0], o.Readings[len(o.Readings)-1]
	if last.At <= first.At {
		return 0
	}
	return (last.Took - first.Took) / (last.At - first.At).Seconds()
}

// analyze fails the canary at the fixed times, if it has more open than chance
// gives a canary with three times its share.
func (o *openings) analyze(alpha float64, elapsed time.Duration) {
	due := 0
	for _, at := range openAnalyses {
		if elapsed >= at {
			due++
		}
	}
	// Most of a minute must have been watched.
	if due <= o.Analyses || len(o.Readings) < 2 || elapsed-o.Readings[0].At < openHistory*3/4 {
		return
	}
	o.Analyses = due
	fewest, most := math.Inf(1), 0.0
	for _, r := range o.Readings {
		fewest, most = min(fewest, r.Open.Canary), max(most, r.Open.Baseline)
	}
	s := o.share()
	if fewest < fewestHanging || fewest <= openRatio*o.explained() || s >= 1 {
		return
	}
	b := betaBinomial{n: fewest + most, q: openRatio * s / (openRatio*s + 1 - s)}
	// Fewer than expected are no evidence. Without any share all of them are.
	unlikely := s == 0 || fewest > b.n*b.q && math.Exp(b.logProbability(fewest))+b.above(fewest) <= alpha/float64(len(openAnalyses))
	o.Failed = o.Failed || unlikely
}

// excess is how many more requests the canary has open than its share of what the
// baseline has, or than its own finished ones explain, and the standard deviation of that.
func (o *openings) excess() (excess, deviation float64) {
	if len(o.Readings) == 0 {
		return 0, 0
	}
	last, s := o.Readings[len(o.Readings)-1], o.share()
	if s >= 1 {
		return 0, 0 // There is no baseline, which is said elsewhere.
	}
	r := s / (1 - s)
	return last.Open.Canary - max(r*last.Open.Baseline, o.explained()), math.Sqrt(last.Open.Canary + r*r*last.Open.Baseline)
}

// hold says that a Pass must wait, because requests of the canary seem to hang.
func (o *openings) hold() bool {
	excess, deviation := o.excess()
	return excess > holdDeviations*deviation && excess > holdRatio*o.Begun.Canary
}

// lacks says why a Pass must wait for what is open; empty if it need not. Where nobody
// counts what is open, requests that hang show when they are cut off: so a Pass waits
// until those of the first MinDuration must have been.
func (o *openings) lacks(p Plan, elapsed time.Duration) verdict.Reason {
	switch {
	case p.Limits.Unaccounted < 0:
		return ""
	case o.Uncounted && elapsed < o.cutOff(p), o.Short != "":
		return verdict.WindowTooShort
	case o.Unknown != "" && !o.Uncounted:
		return verdict.NoData
	case o.hold():
		return verdict.HangingRequests
	}
	return ""
}

// cutOff is when the requests of the first MinDuration have been answered or cut off,
// since the run began.
func (o *openings) cutOff(p Plan) time.Duration { return o.Timeout + max(p.MinDuration, p.Warmup) }

// explain what is open to a person, if it says anything.
func (o *openings) explain(p Plan, elapsed time.Duration) []string {
	var say []string
	if excess, _ := o.excess(); len(o.Readings) > 0 && (o.Failed || o.hold()) {
		say = append(say, fmt.Sprintf("%.0f requests of the canary are open, about %.0f more than the open requests of the baseline suggest: they may hang",
			o.Readings[len(o.Readings)-1].Open.Canary, max(0, excess)))
	}
	why := o.lacks(p, elapsed)
	switch {
	case why == verdict.NoData:
		say = append(say, "the number of open requests is not known: "+o.Unknown)
	case why != verdict.WindowTooShort:
	case o.Uncounted && elapsed < o.cutOff(p):
		say = append(say, fmt.Sprintf("started requests are not counted, so requests that hang are only seen when they time out: a Pass is possible %s after the start at the earliest", o.cutOff(p)))
	default:
		say = append(say, "the canary has not been watched for as long as a request may take, so it is not known whether some hang: "+o.Short)
	}
	return say
}

// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// A hanging request does not finish before its timeout, so no counter of finished requests shows it.
// But it is open. The number of open requests is Poisson for any distribution of durations (M/G/∞), so
// the open requests of two equal sides have the ratio of the requests that they start.
//
// Requests of some shards take longer than others, and chance decides which shards a side has. So the
// canary may have the open requests that its own finished ones explain: on average the seconds that
// they take per second (Little 1961).
//
// A canary may start cold, and any side may stall for some seconds. So the comparison takes the
// canary's fewest open requests in a minute and the baseline's most.

// Limits for open requests.
const (
	// openRatio is the multiple of its share of open requests that the canary may have.
	openRatio = 3
	// fewestHanging is the number below which open requests are no evidence.
	fewestHanging = 5
	// openHistory is how far back readings are kept, and openReadings how many of them.
	openHistory  = time.Minute
	openReadings = 16
	// holdRatio is the part of the canary's started requests that may be open beyond what the baseline
	// explains before a Pass must wait. holdDeviations is the certainty.
	holdRatio      = 0.005
	holdDeviations = 2
)

// openAnalyses are the times since the run's start when a canary may fail for its open requests.
var openAnalyses = []time.Duration{
	2 * time.Minute, 3 * time.Minute, 5 * time.Minute, 10 * time.Minute,
	20 * time.Minute, 30 * time.Minute,
}

// openings is what a run knows about open requests.
type openings struct {
	// Readings of the last minute.
	Readings []openReading `json:"readings,omitempty"`
	// Begun counts requests that started since judging began.
	Begun sides `json:"begun,omitzero"`
	// Took is the total seconds of the canary's requests that finished since then.
	Took float64 `json:"took,omitempty"`
	// Analyses is the number of analyses done. Failed is final.
	Analyses int  `json:"looks,omitempty"`
	Failed   bool `json:"failed,omitempty"`
	// Uncounted means that nothing counts open requests. Unknown says why the last window did not show
	// them, and Short why it did not show overdue ones. Timeout is that of the canary's requests.
	Uncounted bool          `json:"uncounted,omitempty"`
	Unknown   string        `json:"unknown,omitempty"`
	Short     string        `json:"short,omitempty"`
	Timeout   time.Duration `json:"timeout,omitempty"`
}

// openReading is one reading: At since the run's start, and the requests started until then.
type openReading struct {
	At    time.Duration `json:"at"`
	Open  sides         `json:"open,omitzero"`
	Begun sides         `json:"begun,omitzero"`
	Took  float64       `json:"took,omitempty"`
}

// add takes a judged window that ended at elapsed after the run's start.
func (o *openings) add(w Window, elapsed time.Duration) {
	o.Timeout = max(0, w.RequestTimeout)
	o.Short = w.Canary.OverdueUnknown
	if o.Unknown = w.Canary.OpenUnknown; o.Unknown == "" {
		o.Unknown = w.Baseline.OpenUnknown
	}
	o.Uncounted = w.Canary.StartedUnknown || w.Baseline.StartedUnknown
	if o.Uncounted || o.Unknown != "" {
		// Earlier open requests say nothing about the current ones.
		o.Readings = nil
		return
	}
	o.Begun.Canary += whole(w.Canary.Started, 0).N
	o.Begun.Baseline += whole(w.Baseline.Started, 0).N
	if took := w.Canary.Took; took > 0 && took <= countless {
		o.Took += took
	}
	open := sides{Canary: whole(w.Canary.Open, 0).N, Baseline: whole(w.Baseline.Open, 0).N}
	if n := len(o.Readings); n > 1 && elapsed-o.Readings[n-2].At < openHistory/openReadings {
		// Windows are short. One reading stands for several, with the values that speak least against
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

// share returns the canary's share of the started requests, since the split or in the last minute,
// whichever is larger. It is 0 if nothing started.
func (o *openings) share() float64 {
	of := func(s sides) float64 { return s.Canary / max(1, s.Canary+s.Baseline) }
	last := o.Readings[len(o.Readings)-1].Begun
	first := o.Readings[0].Begun
	return max(of(last), of(sides{Canary: last.Canary - first.Canary, Baseline: last.Baseline - first.Baseline}))
}

// explained returns how many open requests the canary should have, from the durations of those that it
// finished in the last minute.
func (o *openings) explained() float64 {
	first, last := o.Readings[0], o.Readings[len(o.Readings)-1]
	if last.At <= first.At {
		return 0
	}
	return (last.Took - first.Took) / (last.At - first.At).Seconds()
}

// analyze fails the canary at the fixed times if it has more open requests than chance explains for
// three times its share.
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
	// Fewer than expected are no evidence. With a share of 0, all of them are.
	unlikely := s == 0 ||
		fewest > b.n*b.q && math.Exp(b.logProbability(fewest))+b.above(fewest) <= alpha/float64(len(openAnalyses))
	o.Failed = o.Failed || unlikely
}

// excess returns the canary's open requests beyond its share of the baseline's, or beyond what its own
// finished ones explain, and the standard deviation.
func (o *openings) excess() (excess, deviation float64) {
	if len(o.Readings) == 0 {
		return 0, 0
	}
	last, s := o.Readings[len(o.Readings)-1], o.share()
	if s >= 1 {
		return 0, 0 // Without a baseline; that is reported elsewhere.
	}
	r := s / (1 - s)
	return last.Open.Canary - max(r*last.Open.Baseline, o.explained()),
		math.Sqrt(last.Open.Canary + r*r*last.Open.Baseline)
}

// hold reports whether a Pass must wait because the canary's requests seem to hang.
func (o *openings) hold() bool {
	excess, deviation := o.excess()
	return excess > holdDeviations*deviation && excess > holdRatio*o.Begun.Canary
}

// lacks returns why a Pass must wait for open requests; empty if it need not. If nothing counts open
// requests, hanging ones show at their timeout, so a Pass waits for that of the first MinDuration.
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

// cutOff is when the requests of the first MinDuration were answered or timed out, since the run's
// start.
func (o *openings) cutOff(p Plan) time.Duration { return o.Timeout + max(p.MinDuration, p.Warmup) }

// explain describes the open requests for a person, if they matter.
func (o *openings) explain(p Plan, elapsed time.Duration) []string {
	var say []string
	if excess, _ := o.excess(); len(o.Readings) > 0 && (o.Failed || o.hold()) {
		say = append(
			say,
			fmt.Sprintf(
				"%.0f requests of the canary are open, about %.0f more than the open requests of the baseline suggest: they may hang",
				o.Readings[len(o.Readings)-1].Open.Canary,
				max(0, excess),
			),
		)
	}
	why := o.lacks(p, elapsed)
	switch {
	case why == verdict.NoData:
		say = append(say, "the number of open requests is not known: "+o.Unknown)
	case why != verdict.WindowTooShort:
	case o.Uncounted && elapsed < o.cutOff(p):
		say = append(
			say,
			fmt.Sprintf(
				"started requests are not counted, so requests that hang are only seen when they time out: a Pass is possible %s after the start at the earliest",
				o.cutOff(p),
			),
		)
	default:
		say = append(say,
			"the canary has not been watched for as long as a request may take, so it is not known whether some hang: "+o.Short)
	}
	return say
}

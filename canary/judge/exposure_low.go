// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// Requests that end before the canary's pods, in a gateway or the activator, are counted by no pod. They
// show as a share: the canary gets fewer requests than its Route gives it. Nothing is known of how they
// ended, so such a canary must not pass.
//
// In a sharded Service, only the entry follows the Route: the owner of a shard handles a request. What is
// handled follows the placement plan, if the members follow one. Shards differ in their traffic, so the
// part that the plan gives the canary is that of its shards in the same window, whoever handled them.

// Planned counts the requests of shards that a placement plan names an owner for: Got by the canary, Due
// those of the canary's shards by that plan, whoever handled them, and All.
type Planned struct{ Got, Due, All float64 }

// reached compares what the canary got with what it should get, in requests. A client keeps its
// connection, so requests are not independent; the windows' differences tell how much the ratio varies.
type reached struct {
	Got      float64 `json:"got,omitempty"`
	Expected float64 `json:"expected,omitempty"`
	// All counts the requests of which Expected is a part.
	All float64 `json:"all,omitempty"`
	// Sums of squares and products over windows.
	GotGot           float64 `json:"gotGot,omitempty"`
	GotExpected      float64 `json:"gotExpected,omitempty"`
	ExpectedExpected float64 `json:"expectedExpected,omitempty"`
	// Open tells of requests that have started and have not finished.
	Open growth `json:"open,omitzero"`
	// Older is how many of the requests that others finished may have begun before the run.
	Older float64 `json:"older,omitempty"`
}

// growth is how many requests are open now, and when the run began. As many are open as their durations
// add up to in a second (Little 1961), which is known without counting starts.
type growth struct {
	First sides `json:"first,omitzero"`
	Now   sides `json:"now,omitzero"`
	Known bool  `json:"known,omitempty"`
}

// growthOver is the time over which the durations count, because a single long request is not many.
const growthOver = time.Minute

// add takes how many seconds the requests took that finished in a window.
func (g *growth) add(took sides, long time.Duration) {
	if long <= 0 || !(took.Canary >= 0 && took.Canary <= countless) ||
		!(took.Baseline >= 0 && took.Baseline <= countless) {
		return
	}
	open := sides{Canary: took.Canary / long.Seconds(), Baseline: took.Baseline / long.Seconds()}
	if !g.Known {
		*g = growth{First: open, Now: open, Known: true}
		return
	}
	part := 1 - math.Exp(-long.Seconds()/growthOver.Seconds())
	g.Now.Canary += part * (open.Canary - g.Now.Canary)
	g.Now.Baseline += part * (open.Baseline - g.Now.Baseline)
}

// add takes the requests of the canary and of all in a window, and the share that the canary should have.
func (r *reached) add(got, all, share float64) {
	if !(share >= 0 && share <= 1) || !(all > 0 && all <= countless) || !(got >= 0 && got <= countless) {
		return
	}
	expected := share * all
	r.Got += got
	r.Expected += expected
	r.All += all
	r.GotGot += got * got
	r.GotExpected += got * expected
	r.ExpectedExpected += expected * expected
}

// started returns what the canary got and should get, with the requests that are still open: a canary
// whose requests take long has finished fewer of them, and started as many.
func (r reached) started() (got, expected float64) {
	canary := r.Open.Now.Canary - r.Open.First.Canary
	baseline := r.Open.Now.Baseline - r.Open.First.Baseline
	got, expected = max(0, r.Got+canary), r.Expected
	if r.All > 0 {
		expected += min(1, r.Expected/r.All) * (canary + baseline)
	}
	if got < expected {
		expected = max(got, expected-r.Older)
	}
	return got, expected
}

// ratio returns which part of its share the canary got, and the standard error.
func (r reached) ratio() (ratio, deviation float64) {
	got, expected := r.started()
	if r.Expected <= 0 || expected <= 0 {
		return 1, 0
	}
	finished := r.Got / r.Expected
	squares := r.GotGot - 2*finished*r.GotExpected + finished*finished*r.ExpectedExpected
	return got / expected, math.Sqrt(max(squares, r.Got)) / r.Expected
}

// low reports whether the canary may get less than the gate accepts: it is not above the bound by two
// deviations.
func (r reached) low(p Plan) bool {
	ratio, deviation := r.ratio()
	return p.Exposure.Min > 0 && r.Got > 0 && ratio < p.Exposure.Min+2*deviation
}

// expose takes a window.
func (e *evidence) expose(p Plan, w Window, canary, baseline float64) {
	e.Handled.add(w.Handled, canary+baseline)
	e.Required.add(w.Required, canary+baseline)
	got, all, share := w.reached(p, canary, baseline)
	e.Reached.add(got, all, share)
	if share >= 0 {
		e.Reached.Open.add(sides{Canary: w.Canary.EntryTook, Baseline: w.Baseline.EntryTook}, w.To.Sub(w.From))
	}
	if n := w.Planned; p.Sharded && n.All > 0 {
		if e.Placed.All == 0 {
			e.Placed.Older = w.Baseline.open(w.To.Sub(w.From))
		}
		e.Placed.add(n.Got, n.All, n.Due/n.All)
	}
}

// open returns how many handled requests are open, as far as that is known.
func (a Arm) open(long time.Duration) float64 {
	switch {
	case !a.StartedUnknown && a.OpenUnknown == "":
		return whole(a.Open, 0).N
	case a.Took > 0 && !math.IsInf(a.Took, 1) && long > 0:
		return a.Took / long.Seconds()
	}
	return 0
}

// reached returns the requests that reached the canary and all Revisions in a window, with the Route's
// share.
func (w Window) reached(p Plan, canary, baseline float64) (got, all, required float64) {
	share := w.Handled
	if p.Sharded {
		if w.Canary.EntryUnknown != "" || w.Baseline.EntryUnknown != "" {
			return 0, 0, -1
		}
		got, baseline, share = whole(w.Canary.Entered, 0).N, whole(w.Baseline.Entered, 0).N, w.Entered
		canary = got
	}
	required = w.Required
	if required == 0 {
		required = -1 // The Route gives it nothing, so it cannot get too little.
	}
	if share > 0 && share <= 1 && canary > 0 {
		return canary, canary / share, required
	}
	return canary, canary + baseline, required
}

// low reports whether the canary may get less than the gate accepts.
func (e *evidence) low(p Plan) bool { return e.Reached.low(p) || e.Placed.low(p) }

// tooHigh and tooLow report whether the canary got another part of its requests than the gate accepts. That
// it got too little is proven.
func (e *evidence) tooHigh(p Plan) bool {
	return e.Reached.above(p) || e.Placed.above(p)
}

func (e *evidence) tooLow(p Plan) bool {
	return e.Reached.below(p) || e.Placed.below(p)
}

func (r reached) above(p Plan) bool {
	got, expected := r.started()
	return p.Exposure.Max > 0 && r.All > 0 && got > p.Exposure.Max*expected
}

func (r reached) below(p Plan) bool {
	ratio, deviation := r.ratio()
	return ratio+2*deviation < p.Exposure.Min
}

// expected returns what the handled share is compared with: the Route's share in an ordinary Service, and
// the plan's in a sharded one; nil if it is not compared.
func (e *evidence) expected(p Plan) *float64 {
	switch {
	case !p.Sharded:
		return e.Required.mean()
	case e.Placed.All > 0:
		share := e.Placed.Expected / e.Placed.All
		return &share
	}
	return nil
}

// explainExposure says which share the canary got if that is not what it should get.
func (j *judgement) explainExposure(p Plan, e *evidence) []string {
	var say []string
	switch {
	case !e.Reached.above(p) && !e.Reached.below(p):
	case p.Sharded:
		say = append(say, fmt.Sprintf("%s of the requests entered at the canary, and the Route gives it %s",
			verdict.Percent(e.Reached.Got/e.Reached.All), verdict.Percent(e.Reached.Expected/e.Reached.All)))
	case j.HandledShare != nil && j.RequiredShare != nil:
		say = append(say, fmt.Sprintf("the canary handled %s of the requests, and the Route gives it %s",
			percent(j.HandledShare), percent(j.RequiredShare)))
	}
	if ratio, deviation := e.Reached.ratio(); e.Reached.low(p) {
		say = append(
			say,
			fmt.Sprintf(
				"the canary got %.2f of the requests that the Route gives it (standard error %.2f), and the gate wants %v: others may have ended before its pods",
				ratio,
				deviation,
				p.Exposure.Min,
			),
		)
	}
	if got, expected := e.Placed.started(); e.Placed.low(p) || e.Placed.above(p) || e.Placed.below(p) {
		say = append(say,
			fmt.Sprintf("the canary handled %.0f requests, and the shards that the placement plan gives it had %.0f", got,
				expected))
	}
	if p.Sharded && e.Placed.All == 0 && j.HandledShare != nil && j.RequiredShare != nil &&
		(p.Exposure.Max > 0 && *j.HandledShare > p.Exposure.Max**j.RequiredShare ||
			*j.HandledShare < p.Exposure.Min**j.RequiredShare) {
		say = append(
			say,
			fmt.Sprintf(
				"the canary handled %s of the requests, and the Route gives it %s: without a placement plan, the cluster decides where its shards are",
				percent(j.HandledShare),
				percent(j.RequiredShare),
			),
		)
	}
	return say
}

// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"slices"
	"time"
)

// A limit is compared with the canary's requests in windows in which the baseline kept it. Bad requests
// that come in clusters count less here, too: half of the evidence is the likelihood of all requests,
// tempered by how much windows and pods vary, and half is bets on minutes.
type alone struct {
	tally
	// Windows with requests; neighbours are merged when there are too many.
	Windows []tally `json:"windows,omitempty"`
	// Bad is the number of windows with bad requests.
	Bad int `json:"bad,omitempty"`
	// Minute is the current minute, and Long how much of it has passed.
	Minute tally         `json:"minute,omitzero"`
	Long   time.Duration `json:"long,omitempty"`
	// Bets on minutes: the logarithm of what each stake has won.
	Bets []float64 `json:"bets,omitempty"`
}

// mostAbove limits how much worse than the limit one minute can be, as a multiple of it: a minute in which
// all requests of one client fail says nothing about the next one.
const mostAbove = 4

// add takes the canary's requests of a window, none if the baseline did not keep the limit.
func (a *alone) add(m Metric, t tally, long time.Duration) {
	a.tally.add(t)
	if !m.limited() {
		return
	}
	if t.N > 0 {
		a.Minute.add(t)
		if a.Windows = append(a.Windows, t); len(a.Windows) > mostWindows {
			a.Windows = talliesInPairs(a.Windows)
		}
	}
	if t.K > 0 {
		a.Bad++
	}
	if a.Long += long; a.Long >= together {
		a.bet(m.Limit)
	}
}

// bet bets on the finished minute. On average at most the limit of its requests are bad, however they
// cluster within it, so each bet is at best fair.
func (a *alone) bet(limit float64) {
	minute := a.Minute
	a.Minute, a.Long = tally{}, 0
	if minute.N == 0 {
		return
	}
	if a.Bets == nil {
		a.Bets = make([]float64, len(stakes))
	}
	result := min(minute.rate()/limit, mostAbove) - 1
	for i, stake := range stakes {
		a.Bets[i] += math.Log1p(stake * result)
	}
}

func talliesInPairs(windows []tally) []tally {
	out := make([]tally, 0, mostWindows)
	for pair := range slices.Chunk(windows, 2) {
		one := pair[0]
		for _, other := range pair[1:] {
			one.add(other)
		}
		out = append(out, one)
	}
	return out
}

// spread returns how many times more the windows' bad requests vary than chance explains, at least 1.
// known is false with too few windows.
func (a *alone) spread() (times float64, known bool) {
	var squares, variance, weights float64
	p := (a.K + 0.5) / (a.N + 1) // Above 0 and below 1, even if all requests are bad.
	for _, w := range a.Windows {
		v := w.N * p * (1 - p)
		squares += (w.K - w.N*p) * (w.K - w.N*p)
		variance += v
		weights += v * v
	}
	if weights == 0 || variance*variance < leastEven*weights || a.Bad < leastWindows {
		return 1, false
	}
	even := variance * variance / weights
	return max(1, squares/variance*even/(even-1)), true
}

// aboveLimit returns the log evidence that the canary is above its limit.
func (t *test) aboveLimit(before past, m Metric) float64 {
	own, known := t.Alone.spread()
	known = known && before.enough()
	times := max(own, t.spreadOfPods(before, m))
	return t.mixed(m, func(stretch mark) float64 {
		e := logMean(stretch.Above)
		if known {
			e = logSum([]float64{e, temperedAbove(stretch.Limit, m.Limit, times)})
		}
		return e - math.Ln2
	})
}

// SPDX-License-Identifier: Apache-2.0

package judge

import "math"

// A Pass is withheld while the latest part of the run is clearly worse than tolerated, whatever came
// before it. This needs no share of alpha or beta, because it can only withhold.

const (
	// latest is how many finished minutes are remembered one by one.
	latest = 5
	// clearly is how many standard deviations, and beyond them how many bad requests, are no chance.
	clearly = 2
)

// excess is how far the canary's bad requests exceed the number that is tolerated, the variance of that
// for independent requests, and the canary's requests and bad ones.
type excess [4]float64

func (c *excess) add(m Metric, t table) {
	if t.canary.N == 0 {
		return
	}
	c[2] += t.canary.N
	c[3] += t.canary.K
	if t = t.thinned(); t.baseline.N == 0 || t.canary.K+t.baseline.K == 0 {
		return
	}
	x, variance := flat{t.canary.N, t.canary.K, t.baseline.N, t.baseline.K}.residual(m.MaxOddsRatio)
	c[0] += x
	c[1] += variance
}

func (c excess) since(o excess) excess {
	for i := range c {
		c[i] -= o[i]
	}
	return c
}

// worse reports whether a stretch is clearly worse than tolerated, and not negligible.
func (c excess) worse(m Metric) bool {
	return c[0] > clearly*(math.Sqrt(max(0, c[1]))+1) && c[3] > m.negligible()*c[2]
}

// minutes are the excess up to the latest minutes, the oldest first.
type minutes struct {
	Long  float64  `json:"long,omitempty"`
	Until []excess `json:"until,omitempty"`
}

// add takes the excess before a window, and how many seconds the window lasts.
func (u *minutes) add(before excess, long float64) {
	if u.Long += long; len(u.Until) == 0 || u.Long >= together.Seconds() {
		for i := range before {
			before[i] = math.Round(before[i]) // Half a bad request decides nothing.
		}
		u.Until, u.Long = append(u.Until, before), long
	}
	if len(u.Until) > latest {
		u.Until = u.Until[1:]
	}
}

// worse reports whether the canary is clearly worse than tolerated in the latest minutes, or since one
// of the late starts.
func (t *test) worse(m Metric) bool {
	for _, until := range t.Latest.Until {
		if t.Excess.since(until).worse(m) {
			return true
		}
	}
	for _, start := range t.Marks {
		if t.Excess.since(start.Excess).worse(m) {
			return true
		}
	}
	return false
}

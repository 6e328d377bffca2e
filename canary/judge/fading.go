// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"time"
)

// A canary that was worse and is no longer is not failed by a comparison: what it did at first would be
// evidence for the whole run. So the latest half of what is compared must be worse than tolerated, too. A
// canary whose young pods are cold may still be warming up after that, so it must also have stopped getting
// better. This can only withhold a Fail, so it needs no share of alpha.

const (
	// mostHalves is the number of stretches above which neighbours are merged.
	mostHalves = 32
	// faded is how much worse young pods are at least, in odds, than later, if they warm up.
	faded = 2
	// stayed is the least ratio of the odds of the later half to those of the earlier half if the canary
	// no longer gets better.
	stayed = 0.85
)

// halves are the windows of a comparison in stretches of as many windows each, to compare the later half
// with the earlier one.
type halves struct {
	Stretches []flat `json:"stretches,omitempty"`
	// Each is how many windows make a stretch, Last how many the last one has.
	Each int           `json:"each,omitempty"`
	Last int           `json:"last,omitempty"`
	Long time.Duration `json:"long,omitempty"`
}

func (h *halves) add(t table, long time.Duration) {
	if t.canary.N == 0 || t.baseline.N == 0 {
		return
	}
	h.Each, h.Long = max(1, h.Each), h.Long+long
	if n := len(h.Stretches); n > 0 && h.Last < h.Each {
		last := &h.Stretches[n-1]
		for i, v := range (flat{t.canary.N, t.canary.K, t.baseline.N, t.baseline.K}) {
			last[i] += v
		}
		h.Last++
		return
	}
	if len(h.Stretches) >= mostHalves {
		h.Stretches, h.Each = inPairs(h.Stretches), 2*h.Each
	}
	h.Stretches, h.Last = append(h.Stretches, flat{t.canary.N, t.canary.K, t.baseline.N, t.baseline.K}), 1
}

// split divides the stretches where half of the canary's requests are.
func (h *halves) split() (earlier, later []flat) {
	all, sum := 0.0, 0.0
	for _, s := range h.Stretches {
		all += s[0]
	}
	for i, s := range h.Stretches {
		if sum += s[0]; 2*sum >= all {
			return h.Stretches[:i+1], h.Stretches[i+1:]
		}
	}
	return h.Stretches, nil
}

// fading reports whether the canary was worse and is no longer, or is still getting better, at every bound.
func (d *metricData) fading(p Plan, m Metric) bool {
	for _, t := range d.Tests {
		if !d.fades(p, m, t) {
			return false
		}
	}
	return true
}

func (d *metricData) fades(p Plan, m Metric, t *test) bool {
	earlier, later := t.Course.split()
	if len(later) == 0 {
		return len(earlier) > 0 && d.warming(p, m, t)
	}
	last := compared(later)
	if p.levels(m).relative && last <= m.MaxOddsRatio {
		return true
	}
	return d.warming(p, m, t) &&
		(t.Course.Long < p.Warmup || last < stayed*compared(earlier) ||
			canaryOf(later).rate() < stayed*canaryOf(earlier).rate())
}

// compared estimates the odds ratio of stretches (Mantel and Haenszel 1959), with one more bad request that
// is anybody's: without any, the two sides are alike.
func compared(stretches []flat) float64 {
	var up, down, canary, baseline float64
	for _, s := range stretches {
		n := s[0] + s[2]
		up += s[1] * (s[2] - s[3]) / n
		down += (s[0] - s[1]) * s[3] / n
		canary, baseline = canary+s[0], baseline+s[2]
	}
	part := canary / (canary + baseline)
	return (up + part*(1-part)) / (down + part*(1-part))
}

// canaryOf returns what the canary did in some stretches. A few bad requests of the baseline change an odds
// ratio, and not this.
func canaryOf(stretches []flat) tally {
	var t tally
	for _, s := range stretches {
		t.add(tally{N: s[0], K: s[1]})
	}
	return t
}

// warming reports whether the canary's young pods and shards are cold and the others are not.
func (d *metricData) warming(p Plan, m Metric, t *test) bool {
	return d.Young.worse(p, m) && d.Young.Canary.odds() > faded*t.Canary.odds()
}

// explainFading says what has become better.
func (d *metricData) explainFading(p Plan, m Metric) string {
	if d == nil || d.Failed != "" || !d.Crossed || !d.fading(p, m) || len(d.Tests) == 0 {
		return ""
	}
	earlier, later := d.Tests[0].Course.split()
	return fmt.Sprintf(", worse at first but fading: %.3g %% in the first half of what is compared, %.3g %% in the second",
		100*canaryOf(earlier).rate(), 100*canaryOf(later).rate())
}

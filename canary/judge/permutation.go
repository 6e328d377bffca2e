package judge

import (
	"math"
	"math/rand/v2"
)

// split is a set of shards' scores, by side.
type split struct{ canary, baseline []float64 }

// difference of the means, canary's less baseline's.
func (s split) difference() float64 {
	return sum(s.canary)/float64(len(s.canary)) - sum(s.baseline)/float64(len(s.baseline))
}

// enumerable is how many ways of dealing the shards are gone through one by one;
// where there are more, some are drawn.
const enumerable = 20000

// permutation tests whether the canary's mean score is high, and whether it is low,
// for shards that would be as likely on either side: the shares of all ways of dealing
// them that are at least as high, and as low, as what was found. With so many ways
// that some are drawn, what was found counts as one of them, so that the test stays
// exact. The same seed draws the same.
func (s split) permutation(draws int, seed [2]uint64) (high, low float64) {
	if len(s.canary) == 0 || len(s.baseline) == 0 {
		return 1, 1
	}
	// The sum over the smaller side orders the ways as the difference of means does.
	few, sign, found := len(s.canary), 1.0, s.canary
	if len(s.baseline) < few {
		few, sign, found = len(s.baseline), -1, s.baseline
	}
	all := append(append([]float64{}, s.canary...), s.baseline...)
	scale := 0.0
	for _, v := range all {
		scale += math.Abs(v)
	}
	c := count{found: sum(found), slack: 1e-12 * scale}
	if ways(len(all), few) <= enumerable {
		c.enumerate(all, few, 0)
	} else {
		c.note(c.found)
		c.draw(all, few, draws, rand.New(rand.NewPCG(seed[0], seed[1]))) //nolint:gosec // A verdict must come out the same after a restart.
	}
	high, low = c.above/c.of, c.below/c.of
	if sign < 0 {
		high, low = low, high
	}
	return high, low
}

// count is how many sums are as high and as low as what was found, of how many.
type count struct{ found, slack, above, below, of float64 }

func (c *count) note(v float64) {
	c.of++
	if v >= c.found-c.slack {
		c.above++
	}
	if v <= c.found+c.slack {
		c.below++
	}
}

// enumerate goes through all ways of taking few of what is there.
func (c *count) enumerate(of []float64, few int, taken float64) {
	if few == 0 {
		c.note(taken)
		return
	}
	for i := 0; i+few <= len(of); i++ {
		c.enumerate(of[i+1:], few-1, taken+of[i])
	}
}

func (c *count) draw(all []float64, few, draws int, rng *rand.Rand) {
	for range draws {
		taken := 0.0
		for i := range few {
			j := i + rng.IntN(len(all)-i)
			all[i], all[j] = all[j], all[i]
			taken += all[i]
		}
		c.note(taken)
	}
}

// ways of taking few of n: as a number, since they may be very many.
func ways(n, few int) float64 {
	if few < 0 || few > n {
		return 0
	}
	return math.Round(math.Exp(min(logChoose(float64(n), float64(few)), 600)))
}

func sum(of []float64) float64 {
	s := 0.0
	for _, v := range of {
		s += v
	}
	return s
}

// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"math/rand/v2"
)

// dealt holds shards' scores and their weights as observed, the baseline's negative.
type dealt struct{ weights, scores []float64 }

// permutation tests whether a weighted sum of scores is high, if the scores are exchangeable. It
// returns the share of all orders whose sum is at least as high. Each stratum is permuted by itself.
// The observed order counts as one of the draws. Drawing ends once the share is at least four standard
// deviations from the level. The same seed draws the same.
func permutation(strata []dealt, level float64, seed [2]uint64) float64 {
	found, scale := 0.0, 0.0
	own := make([][]float64, len(strata))
	for i, s := range strata {
		own[i] = append([]float64{}, s.scores...)
		for j, score := range s.scores {
			found += s.weights[j] * score
			scale += math.Abs(s.weights[j] * score)
		}
	}
	if scale == 0 {
		return 1
	}
	found -= 1e-12 * scale
	rng := rand.New(rand.NewPCG(seed[0], seed[1])) //nolint:gosec // A verdict must come out the same after a restart.
	above, drawn := 1.0, 1.0
	for most := draws(level); drawn <= most; {
		sum := 0.0
		for i, s := range strata {
			sum += s.shuffled(own[i], rng)
		}
		if drawn++; sum >= found {
			above++
		}
		if off := math.Abs(above - level*drawn); drawn >= fewestDraws && off > 10+4*math.Sqrt(level*drawn) {
			break
		}
	}
	return above / drawn
}

// fewestDraws is enough for a share that is only shown.
const fewestDraws = 400

// draws returns how many draws tell on which side of a level a share lies.
func draws(level float64) float64 { return math.Floor(min(100/level, 1e5)) }

// shuffled returns the weighted sum of the scores in a new order, and keeps that order.
func (d dealt) shuffled(scores []float64, rng *rand.Rand) float64 {
	sum := 0.0
	for i, weight := range d.weights {
		j := i + rng.IntN(len(scores)-i)
		scores[i], scores[j] = scores[j], scores[i]
		sum += weight * scores[i]
	}
	return sum
}

// negated swaps high and low.
func (d dealt) negated() dealt {
	weights := make([]float64, len(d.weights))
	for i, w := range d.weights {
		weights[i] = -w
	}
	return dealt{weights: weights, scores: d.scores}
}

// ways returns the number of ways to take few of n, as a float because it may be very large.
func ways(n, few int) float64 {
	if few < 0 || few > n {
		return 0
	}
	return math.Round(math.Exp(min(logChoose(float64(n), float64(few)), 600)))
}

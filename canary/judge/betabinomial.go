// SPDX-License-Identifier: Apache-2.0

package judge

import "math"

// betaBinomial is the distribution of the number of bad requests among n, when each shard has its own
// ratio around q. dispersion is the correlation between two requests of one shard, from 0 (binomial) to
// below 1. q is neither 0 nor 1.
type betaBinomial struct{ n, q, dispersion float64 }

const (
	// binomialBelow is the dispersion below which the beta distribution is a point.
	binomialBelow = 1e-9
	// longestSum is the largest number of summed terms; larger counts are close enough to normal.
	longestSum = 1e5
	// farthestScore limits normal scores, so no unlikely count weighs more than that.
	farthestScore = 7
)

// variance returns the variance of the number of bad requests.
func (b betaBinomial) variance() float64 {
	return b.n * b.q * (1 - b.q) * b.inflation()
}

// inflation returns the variance as a multiple of the binomial distribution's.
func (b betaBinomial) inflation() float64 { return 1 + (b.n-1)*b.dispersion }

// logProbability returns the log probability of k bad requests.
func (b betaBinomial) logProbability(k float64) float64 {
	if b.dispersion < binomialBelow {
		l := logChoose(b.n, k)
		if k > 0 {
			l += k * math.Log(b.q)
		}
		if k < b.n {
			l += (b.n - k) * math.Log1p(-b.q)
		}
		return l
	}
	alpha, beta := b.shapes()
	return logChoose(b.n, k) + logBeta(k+alpha, b.n-k+beta) - logBeta(alpha, beta)
}

// shapes returns the parameters of the beta distribution of the shards' ratios.
func (b betaBinomial) shapes() (alpha, beta float64) {
	both := 1/b.dispersion - 1
	return b.q * both, (1 - b.q) * both
}

// step returns the probability of k+1 divided by that of k.
func (b betaBinomial) step(k float64) float64 {
	step := (b.n - k) / (k + 1)
	if b.dispersion < binomialBelow {
		return step * b.q / (1 - b.q)
	}
	alpha, beta := b.shapes()
	return step * (k + alpha) / (b.n - k - 1 + beta)
}

// below returns the probability of fewer than k, above that of more.
func (b betaBinomial) below(k float64) float64 {
	sum := 0.0
	for j, term := k, math.Exp(b.logProbability(k)); j > 0; j-- {
		term /= b.step(j - 1)
		if sum += term; b.ends(term, sum) {
			break
		}
	}
	return sum
}

func (b betaBinomial) above(k float64) float64 {
	sum := 0.0
	for j, term := k, math.Exp(b.logProbability(k)); j < b.n; j++ {
		term *= b.step(j)
		if sum += term; b.ends(term, sum) {
			break
		}
	}
	return sum
}

// ends reports whether a sum is complete. Terms fall away from the middle, unless most shards have
// hardly any bad requests or hardly any good ones.
func (b betaBinomial) ends(term, sum float64) bool {
	if term > negligibleTerm*sum {
		return false
	}
	if b.dispersion < binomialBelow {
		return true
	}
	alpha, beta := b.shapes()
	return min(alpha, beta) >= 1
}

// score returns the randomised quantile residual of k bad requests (Dunn and Smyth 1996): the position
// of k in its distribution, as a standard normal number. chance, from 0 to 1, picks a point between
// "fewer than k" and "k or fewer". This makes scores exactly normal for any request count.
func (b betaBinomial) score(k, chance float64) float64 {
	middle := b.n * b.q
	var z float64
	switch {
	case b.n == 0:
		z = quantile(chance)
	case max(k, middle) > longestSum:
		z = (k - middle) / math.Sqrt(b.variance())
	case k <= middle:
		z = quantile(b.below(k) + chance*math.Exp(b.logProbability(k)))
	default:
		// From the other side, where small probabilities are exact.
		z = -quantile(b.above(k) + (1-chance)*math.Exp(b.logProbability(k)))
	}
	return max(-farthestScore, min(farthestScore, z))
}

// quantile returns the quantile of the standard normal distribution.
func quantile(p float64) float64 { return -math.Sqrt2 * math.Erfcinv(2*max(0, min(1, p))) }

func logBeta(a, b float64) float64 {
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	return la + lb - lab
}

// SPDX-License-Identifier: Apache-2.0

package judge

import "math"

// hypergeometric is Fisher's noncentral hypergeometric distribution: how many of both sides' bad
// requests are the canary's.
type hypergeometric struct{ canary, baseline, bad float64 }

// support returns the fewest and the most that the canary can have.
func (h hypergeometric) support() (lo, hi float64) {
	return max(0, h.bad-h.baseline), min(h.bad, h.canary)
}

// negligibleTerm is the size below which terms are left out of sums. Beyond the mode they fall faster
// than any geometric series, so their sum is no larger than rounding.
const negligibleTerm = 1e-19

// logWeight returns the logarithm of the sum of the weights C(canary,j)·C(baseline,bad-j)·ratio^j. It
// starts at the largest and goes both ways until terms vanish: some ten standard deviations, which is
// thousands of terms for millions of requests.
func (h hypergeometric) logWeight(ratio float64) float64 {
	lo, hi := h.support()
	mode := h.mode(ratio)
	sum := 1.0
	for j, term := mode, 1.0; j < hi && term > negligibleTerm; j++ {
		term *= h.step(j, ratio)
		sum += term
	}
	for j, term := mode, 1.0; j > lo && term > negligibleTerm; j-- {
		term /= h.step(j-1, ratio)
		sum += term
	}
	return logChoose(h.canary, mode) + logChoose(h.baseline, h.bad-mode) + mode*math.Log(ratio) + math.Log(sum)
}

// step returns the weight of j+1 divided by that of j. It falls with j.
func (h hypergeometric) step(j, ratio float64) float64 {
	return (h.canary - j) * (h.bad - j) * ratio / ((j + 1) * (h.baseline - h.bad + j + 1))
}

// mode returns where the weight is largest.
func (h hypergeometric) mode(ratio float64) float64 {
	lo, hi := h.support()
	for lo < hi {
		mid := math.Floor((lo + hi) / 2)
		if h.step(mid, ratio) < 1 {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// logProbability returns the log probability that k of the bad requests are the canary's.
func (h hypergeometric) logProbability(k, ratio float64) float64 {
	lo, hi := h.support()
	if k < lo || k > hi {
		return math.Inf(-1)
	}
	return logChoose(h.canary, k) + logChoose(h.baseline, h.bad-k) + k*math.Log(ratio) - h.logWeight(ratio)
}

func logChoose(n, k float64) float64 {
	if k == 0 || k == n {
		return 0
	}
	return logFactorial(n) - logFactorial(k) - logFactorial(n-k)
}

func logFactorial(n float64) float64 {
	l, _ := math.Lgamma(n + 1)
	return l
}

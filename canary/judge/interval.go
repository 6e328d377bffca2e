// SPDX-License-Identifier: Apache-2.0

package judge

import "math"

// z95 is the normal quantile of a two-sided interval of 95 %.
const z95 = 1.959963984540054

// wilson bounds a ratio (Wilson 1927, JASA 22:209-212).
func wilson(t tally, z float64) (low, high float64) {
	if t.N == 0 {
		return 0, 1
	}
	p, zz := t.rate(), z*z
	middle := p + zz/(2*t.N)
	half := z * math.Sqrt(p*(1-p)/t.N+zz/(4*t.N*t.N))
	scale := 1 + zz/t.N
	return max(0, (middle-half)/scale), min(1, (middle+half)/scale)
}

// newcombe bounds the difference of two ratios (Newcombe 1998, Statistics in Medicine
// 17:873-890, method 10). It holds for one analysis, not for many: use it for display only.
func newcombe(a, b tally, z float64) (low, high float64) {
	la, ua := wilson(a, z)
	lb, ub := wilson(b, z)
	d := a.rate() - b.rate()
	return d - math.Hypot(a.rate()-la, ub-b.rate()), d + math.Hypot(ua-a.rate(), b.rate()-lb)
}

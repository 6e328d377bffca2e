// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// slow counts requests above one bound.
type slow struct{ plain }

func (slow) traits() traits { return traits{source: Durations} }

func (slow) read(_ Metric, a Arm, tests []*test) ([]tally, string) { return above(a, tests) }

func (slow) untold(a Arm) float64 { return a.Untimed }

func (slow) column(m Metric) (column, bool) { return slowColumn, m.Threshold == ShardSlowBound }

func (slow) differed(p past, bound float64) difference { return p.above(bound) }

func (slow) worst(w worst, bound float64) tally { return w.above(bound) }

// slowerAnywhere counts them above every bound.
type slowerAnywhere struct{ plain }

func (slowerAnywhere) traits() traits {
	return traits{source: Durations, unlimited: true, everywhere: true}
}

// maxBounds is the number of histogram bounds that are compared.
const maxBounds = 32

func (slowerAnywhere) tests(m Metric, w Window) []*test {
	bounds := w.Baseline.Above
	if w.Baseline.Finished == 0 || w.Baseline.DurationsUnknown != "" {
		bounds = w.Canary.Above
	}
	var tests []*test
	for _, bound := range slices.Sorted(maps.Keys(bounds)) {
		if len(tests) < maxBounds {
			tests = append(tests, newTest(m, bound))
		}
	}
	return tests
}

func (slowerAnywhere) read(_ Metric, a Arm, tests []*test) ([]tally, string) { return above(a, tests) }

func (slowerAnywhere) untold(a Arm) float64 { return a.Untimed }

func (slowerAnywhere) differed(p past, bound float64) difference { return p.above(bound) }

func (slowerAnywhere) worst(w worst, bound float64) tally { return w.above(bound) }

// above returns how many requests of a side were slower than the bound of each test, of those that have a duration.
func above(a Arm, tests []*test) ([]tally, string) {
	out := make([]tally, len(tests))
	switch {
	case a.Finished <= 0:
		return out, ""
	case len(tests) == 0:
		return out, cmp.Or(a.DurationsUnknown, "no buckets")
	case a.DurationsUnknown != "":
		return out, a.DurationsUnknown
	}
	for i, t := range tests {
		n, ok := a.Above[t.Bound]
		if !ok {
			return out, fmt.Sprintf("%v s is not a bound of the histogram", t.Bound)
		}
		out[i] = whole(a.Finished-a.Untimed, n)
	}
	return out, ""
}

// SPDX-License-Identifier: Apache-2.0

package main

import "math"

// behaviour returns, for one run, what happens to a pod's requests.
type behaviour = func(s *scene) func(m moment) fate

// steady is a behaviour that needs no memory.
func steady(f func(m moment) fate) behaviour {
	return func(*scene) func(moment) fate { return f }
}

// alike gives all pods the same fate.
func alike(f fate) behaviour { return steady(func(moment) fate { return f }) }

// apart gives the canary's pods another fate from the split on.
func apart(usual, canarys fate) behaviour {
	return steady(func(m moment) fate {
		if m.onCanary() {
			return canarys
		}
		return usual
	})
}

// failing is a fate with this part of errors.
func failing(part float64) fate { return fate{fails: part} }

// odd multiplies the odds of a probability.
func odd(p, times float64) float64 { return times * p / (1 - p + times*p) }

// episodes gives each pod bad times: for this share of the time it fails at another rate, for so many seconds on
// average.
func episodes(usual, bad, share, long float64) behaviour {
	type state struct {
		bad  bool
		till float64
	}
	return func(*scene) func(moment) fate {
		all := map[*pod]*state{}
		return func(m moment) fate {
			st := all[m.pod]
			if st == nil {
				st = &state{bad: m.rng.Float64() >= share, till: m.at} // turned over at once
				all[m.pod] = st
			}
			for m.at >= st.till {
				st.bad = !st.bad
				mean := long
				if !st.bad {
					mean *= (1 - share) / share
				}
				st.till += m.rng.ExpFloat64() * mean
			}
			if st.bad {
				return failing(bad)
			}
			return failing(usual)
		}
	}
}

// perPod gives each pod an error rate for life, lognormal about a mean.
func perPod(mean, sigma float64) behaviour {
	return func(*scene) func(moment) fate {
		rates := map[*pod]float64{}
		return func(m moment) fate {
			rate, known := rates[m.pod]
			if !known {
				rate = min(1, mean*math.Exp(sigma*m.rng.NormFloat64()-sigma*sigma/2))
				rates[m.pod] = rate
			}
			return failing(rate)
		}
	}
}

// outages hit all pods for 15 s at a time, a tenth of the time.
func outages(s *scene) func(moment) fate {
	out, until := false, s.at
	return func(m moment) fate {
		if m.at >= until {
			out, until = m.rng.Float64() < .1, m.at+15
		}
		if out {
			return failing(.5)
		}
		return failing(.01)
	}
}

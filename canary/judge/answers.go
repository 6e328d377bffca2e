// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// answers is what a metric of status codes keeps besides its test. Its size is bounded, because there
// are only so many codes.
type answers struct {
	// Codes counts 2xx to 4xx by code.
	Codes map[string]sides `json:"codes,omitempty"`
	// Unknown counts requests whose code is not known, as with gRPC. None means that in the last window
	// no request of either side had a code, because queue-proxy exports none.
	Unknown sides `json:"unknown,omitzero"`
	None    bool  `json:"none,omitempty"`
	// Redirects compares the two ways to succeed, in either direction. Differ is final.
	Redirects *test `json:"redirects"`
	Differ    bool  `json:"differ,omitempty"`
}

// note takes a window.
func (d *metricData) note(m Metric, w Window, before past) {
	if d.Answers == nil {
		d.Answers = &answers{Redirects: &test{Odds: redirectOdds(m)}}
	}
	a := d.Answers
	w.Canary.Codes, w.Baseline.Codes = grownCodes(w.Canary, w.Young.Canary), grownCodes(w.Baseline, w.Young.Baseline)
	a.None = w.Canary.NoCodes && w.Baseline.NoCodes
	for code, n := range w.Canary.Codes {
		a.count(code, sides{Canary: whole(n, 0).N})
	}
	for code, n := range w.Baseline.Codes {
		a.count(code, sides{Baseline: whole(n, 0).N})
	}
	a.Redirects.redirects(m, w, before)
}

// redirectOdds are those of a Fail, and their inverses.
func redirectOdds(m Metric) *odds {
	up := append(failGrid(m.MaxOddsRatio), m.MaxOddsRatio)
	return oddsOf(append(up, inverses(up)...))
}

func inverses(of []float64) []float64 {
	out := make([]float64, len(of))
	for i, ratio := range of {
		out[i] = 1 / ratio
	}
	return out
}

func (a *answers) count(code string, n sides) {
	switch {
	case !anyCode(code):
		a.Unknown.plus(n)
	case code[0] >= '2' && code[0] <= '4':
		if a.Codes == nil { // JSON keeps no empty map
			a.Codes = map[string]sides{}
		}
		was := a.Codes[code]
		was.plus(n)
		a.Codes[code] = was
	}
}

func (s *sides) plus(o sides) {
	s.Canary += o.Canary
	s.Baseline += o.Baseline
}

// redirects takes a window's successes, of which redirects are counted.
func (t *test) redirects(m Metric, w Window, before past) {
	read := func(a Arm) tally { return whole(a.answered(isSuccess), a.answered(isRedirect)) }
	both := table{canary: read(w.Canary), baseline: read(w.Baseline)}
	pods := make(map[string]tally, len(w.Pods))
	for name, arm := range w.Pods {
		pods[name] = read(arm)
	}
	t.Canary.add(both.canary)
	t.Baseline.add(both.baseline)
	t.Clusters.add(m, both, w.To.Sub(w.From), before.spread(m, 0))
	t.Clusters.watch(pods)
	t.Odds.add(both)
}

// differs reports whether the canary redirects with far other odds than the baseline, up or down. That
// may be what the canary is for, so it is no failure.
func (a *answers) differs(v analysis, m Metric, l levels) bool {
	if a == nil || a.Differ {
		return a != nil
	}
	t := a.Redirects
	times, known := t.spread(v.past, m)
	if !known || !v.enough || max(t.Canary.rate(), t.Baseline.rate()) <= m.negligible() {
		return false
	}
	up := failGrid(m.MaxOddsRatio)
	proof := max(t.Odds.tempered(m.MaxOddsRatio, up, times), t.Odds.tempered(1/m.MaxOddsRatio, inverses(up), times))
	a.Differ = proof >= math.Log(l.warn)
	return a.Differ
}

// inapplicable reports whether neither side has status codes to compare. One that has none, and another
// that has, is a lack of data.
func (d *metricData) inapplicable() bool {
	if d.Answers == nil || len(d.Tests) == 0 {
		return false
	}
	a, t := d.Answers, d.Tests[0]
	none := func(known, unknown float64) bool {
		return known+unknown == 0 && a.None || unknown > 0 && known <= mostUnknown*(known+unknown)
	}
	return none(t.Canary.N, a.Unknown.Canary) && none(t.Baseline.N, a.Unknown.Baseline)
}

// rise names the code whose part of the answers has grown most; empty if none has.
func (a *answers) rise(some func(string) bool, of *test) string {
	text, most := "", 0.0
	for _, code := range slices.Sorted(maps.Keys(a.Codes)) {
		if !some(code) || of.Canary.N == 0 {
			continue
		}
		n := a.Codes[code]
		canary, baseline := n.Canary/of.Canary.N, n.Baseline/max(1, of.Baseline.N)
		if rise := canary - baseline; rise > most {
			text, most = fmt.Sprintf("%s rose from %s to %s", code, percent(&baseline), percent(&canary)), rise
		}
	}
	return text
}

// detail says which code has changed a result most.
func (d *metricData) detail(m Metric, worse bool) string {
	switch a := d.Answers; {
	case a == nil:
		return ""
	case worse:
		return a.rise(m.isClientError, d.Tests[0])
	case a.Differ:
		return a.rise(isSuccess, d.Tests[0])
	}
	return ""
}

func (a *answers) check(m Metric) error {
	if a == nil {
		return nil
	}
	if err := a.Redirects.check(redirectOdds(m)); err != nil {
		return fmt.Errorf("redirects: %w", err)
	}
	return nil
}

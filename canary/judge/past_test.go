// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// The spread is Pearson's statistic divided by its degrees of freedom: for the counts 2, 4, 6 and 12
// around 6 it is (16+4+0+36)/6/3.
func TestSpread(t *testing.T) {
	t.Parallel()
	near(t, "spread", spread([]seen{{2, 6}, {4, 6}, {6, 6}, {12, 6}}), 56./18, 1e-12)
	for name, of := range map[string][]seen{
		"three pods":          {{0, 10}, {0, 10}, {30, 10}},
		"less than by chance": {{10, 10}, {10, 10}, {10, 10}, {10, 10}},
		"nobody was bad":      {{}, {}, {}, {}},
	} {
		if got := spread(of); got != 1 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The history is kept per metric, survives JSON, and counts only pods that were watched for ten
// minutes.
func TestRemember(t *testing.T) {
	t.Parallel()
	var pods []PodPast
	for i := range 5 {
		pods = append(pods, PodPast{
			Watched: time.Duration(8+i) * time.Minute, Errors: Expected{float64(20 * (i % 2)), 8}, EntryErrors: Expected{8, 8},
			Above: map[float64]Expected{0.5: {float64(i), 2}, 1: {2, 2}},
		})
	}
	run := Start(epoch, nil)
	run.Remember(pods)
	content, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	read := &Run{}
	if err := json.Unmarshal(content, read); err != nil {
		t.Fatal(err)
	}
	p := read.Evidence.Past
	if p.Pods != 3 || p.enough() {
		t.Errorf("%d pods, enough: %v", p.Pods, p.enough())
	}
	near(t, "errors", p.spread(Metric{Kind: Errors}, 0), (3*64+2*144)/8./4, 1e-12)
	near(t, "at entry, of too few pods", p.spread(Metric{Kind: EntryErrors}, 0), 1, 0)
	near(t, "slow", p.spread(Metric{Kind: Slow}, 0.5), 10./8, 1e-12)
	near(t, "slower", p.spread(Metric{Kind: SlowerAnywhere}, 1), 1, 0)
	near(t, "not counted", p.spread(Metric{Kind: SlowerAnywhere}, 7), 1, 0)
	for i := range pods {
		pods[i].Watched += 22 * time.Minute
	}
	run.Remember(pods)
	p = run.Evidence.Past
	// Four of the five were watched for at least 31 minutes.
	near(t, "at entry, after half an hour", p.spread(Metric{Kind: EntryErrors}, 0), 1.5-31./120, 1e-12)
}

// The mode of the noncentral hypergeometric distribution and the curvature there are near its mean and
// its variance.
func TestResidual(t *testing.T) {
	t.Parallel()
	for _, w := range []flat{{100, 7, 900, 20}, {500, 40, 500, 10}, {50, 30, 950, 300}, {900, 3, 100, 1}} {
		for _, odds := range []float64{0.3, 1, 1.5, 6} {
			h := hypergeometric{canary: w[0], baseline: w[2], bad: w[1] + w[3]}
			low, high := h.support()
			var mean, square float64
			for k := low; k <= high; k++ {
				p := math.Exp(h.logProbability(k, odds))
				mean, square = mean+p*k, square+p*k*k
			}
			x, v := w.residual(odds)
			near(t, "mean", w[1]-x, mean, 0.25)
			near(t, "variance", v/(square-mean*mean), 1, 0.1)
		}
	}
}

// Bets on a minute are fair at the tolerance and lose below it, however its bad requests cluster: here
// all of them are at one side.
func TestBetsAreFair(t *testing.T) {
	t.Parallel()
	m := Metric{Kind: Errors, MaxOddsRatio: 1.5}
	for _, spread := range []float64{1, 30} {
		won := func(own float64) []float64 {
			c := clusters{}
			c.Minute.add(m, table{tally{100, own}, tally{900, 20 - own}})
			c.bet(m, spread)
			return append(c.Bets, c.Plain...)
		}
		all, none := won(20), won(0)
		share := part(100, 900, 1.5)
		for i := range all {
			near(t, "a bet", share*math.Exp(all[i])+(1-share)*math.Exp(none[i]), 1, 1e-9)
		}
	}
}

// A comparison waits for four windows, even if the first is clear.
func TestNoFailBeforeFourWindows(t *testing.T) {
	t.Parallel()
	var pods []PodPast
	for range 9 {
		pods = append(pods, PodPast{Watched: time.Hour, Errors: Expected{5, 5}})
	}
	for _, known := range [][]PodPast{pods, nil} {
		run := Start(epoch, nil)
		run.Remember(known)
		windows := 0
		for ; run.Last.Verdict == verdict.Running; windows++ {
			w := at(windows, arm(500, 400), arm(9000, 9))
			w.Pods = map[string]Arm{}
			for i := range 9 {
				w.Pods[string(rune('a'+i))] = arm(1000, 1)
			}
			run.Analyze(errorsOnly(), w)
		}
		if run.Last.Verdict != verdict.Fail || windows < leastWindows || windows > 10 {
			t.Errorf("%s after %d windows", run.Last.Verdict, windows)
		}
	}
}

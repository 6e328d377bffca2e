// SPDX-License-Identifier: Apache-2.0

// Package compare says what other tools would have decided on the traffic that finished runs of gates kept.
//
// Its invariants: it is pure. The others see what a gateway sees: requests where they enter. What is not known is no
// data, and what comes after the end of a run is not assumed.
package compare

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/rivals/argo"
	"github.com/knative-cdevents/knative-cdevents/canary/rivals/flagger"
	"github.com/knative-cdevents/knative-cdevents/canary/rivals/kayenta"
	"github.com/knative-cdevents/knative-cdevents/canary/traffic"
)

// Rules are what the others judge by.
type Rules struct {
	Flagger flagger.Analysis
	// Argo are the metrics of an AnalysisTemplate, which all must succeed.
	Argo []argo.Metric
	// KayentaFor is how long Kayenta compares.
	KayentaFor time.Duration
}

// Documented are the defaults that the documentation of each tool gives. Kayenta's gives none for how long it takes.
func Documented(kayentaFor time.Duration) Rules {
	return Rules{Flagger: flagger.Documented(), Argo: []argo.Metric{argo.Documented()}, KayentaFor: kayentaFor}
}

// step is the interval of Kayenta's values, and scrapes is how far apart the scrapes may be that an irate looks at.
const (
	step    = time.Minute
	scrapes = time.Minute
)

// Gate is the name of our own.
const Gate = "gate"

// Tools are the names of the others.
var Tools = []string{"Flagger", "Argo Rollouts", "Kayenta"}

// Decision is what a tool does with a release.
type Decision string

// The decisions. NoData is not one of the tool: its rule cannot be computed.
const (
	Promotes  Decision = "Pass"
	Stops     Decision = "Fail"
	Undecided Decision = "Undecided"
	NoData    Decision = "NoData"
)

// Opinion is what a tool says, and when.
type Opinion struct {
	Tool     string   `json:"tool"`
	Decision Decision `json:"decision"`
	// Verdict is the word of the tool for it, or why there is none.
	Verdict string `json:"verdict,omitempty"`
	// Minutes and Requests of the canary since the run began to measure.
	Minutes  float64 `json:"minutes"`
	Requests float64 `json:"requests"`
}

// Opinions returns what the others say of a run, in the order of Tools.
func (r Rules) Opinions(of *traffic.Record) []Opinion {
	out := make([]Opinion, len(Tools))
	for i, judge := range []func(*view) (Opinion, time.Duration){r.flagger, r.argo, r.kayenta} {
		v := &view{Record: of}
		o, at := judge(v)
		switch {
		case v.lacks != "":
			o = Opinion{Decision: NoData, Verdict: v.lacks}
		case o.Decision == "":
			o, at = Opinion{Decision: Undecided}, of.End()
		}
		o.Tool, o.Minutes, o.Requests = Tools[i], math.Round(at.Minutes()*10)/10, Requests(of, at)
		out[i] = o
	}
	return out
}

// Requests returns how many requests the canary had up to a time.
func Requests(of *traffic.Record, at time.Duration) (n float64) {
	for _, w := range of.Windows {
		if w.To <= at {
			n += w.Canary.Entry.Requests
		}
	}
	return n
}

// view is a record as another tool sees it.
type view struct {
	*traffic.Record
	// lacks is why something that it asked for is not known.
	lacks string
}

func canary(w *traffic.Window) *traffic.Side   { return &w.Canary }
func baseline(w *traffic.Window) *traffic.Side { return &w.Baseline }

// between returns what a side did between two times, as far as windows show it, and the last window of them. It returns
// false at the end of the record, and if it is not known.
func (v *view) between(
	side func(*traffic.Window) *traffic.Side, from, to, longest time.Duration,
) (all, last traffic.Counts, known bool) {
	if to > v.End() {
		return all, last, false
	}
	for i := range v.Windows {
		w := &v.Windows[i]
		if w.To <= from || w.From >= to {
			continue
		}
		switch s := side(w); {
		case s.Lacks != "":
			v.lacks = s.Lacks
			return all, last, false
		case w.To-w.From > longest && s.Entry.Requests > 0:
			v.lacks = fmt.Sprintf("known only as a whole from minute %.1f to %.1f", w.From.Minutes(), w.To.Minutes())
			return all, last, false
		case w.To <= to:
			all, last = all.Plus(s.Entry), s.Entry
		}
	}
	return all, last, true
}

// noDurations is why a rule that needs durations cannot be computed.
const noDurations = "durations are not known"

func (r Rules) flagger(v *view) (Opinion, time.Duration) {
	end, at := r.Flagger.Run(func(from, to time.Duration) (flagger.Window, bool) {
		c, _, known := v.between(canary, from, to, max(r.Flagger.MetricInterval, step))
		if known && !c.Timed() && r.Flagger.MaxDuration > 0 {
			v.lacks, known = noDurations, false
		}
		return flagger.Window{Requests: c.Requests, Failed: c.Errors, Bounds: v.Bounds, Buckets: c.Buckets}, known
	})
	decisions := map[flagger.Phase]Decision{flagger.Succeeded: Promotes, flagger.Failed: Stops}
	return Opinion{Decision: decisions[end], Verdict: string(end)}, at
}

// argo stops with the first metric that fails, and promotes with the last one that succeeds.
func (r Rules) argo(v *view) (out Opinion, at time.Duration) {
	stopped, lacks, undecided := time.Duration(math.MaxInt64), "", false
	for _, m := range r.Argo {
		v.lacks = ""
		switch end, when := m.Run(func(at time.Duration) (float64, bool) { return measured(v, m, at) }); {
		case v.lacks != "":
			lacks = m.Name + ": " + v.lacks
		case end == argo.Failed:
			stopped = min(stopped, when)
		default:
			at, undecided = max(at, when), undecided || end == argo.Undecided
		}
	}
	v.lacks = ""
	switch {
	case stopped != math.MaxInt64:
		return Opinion{Decision: Stops, Verdict: string(argo.Failed)}, stopped
	case lacks != "" || undecided:
		v.lacks = lacks
		return out, v.End()
	}
	return Opinion{Decision: Promotes, Verdict: string(argo.Successful)}, at
}

func measured(v *view, m argo.Metric, at time.Duration) (value float64, known bool) {
	if m.Value == nil {
		_, last, known := v.between(canary, at-scrapes, at, scrapes)
		return 1 - last.Errors/last.Requests, known
	}
	known = true
	value, err := m.Value.Of(func(within time.Duration, last, histogram bool) (argo.Counts, error) {
		if last {
			within = scrapes
		}
		c, one, ok := v.between(canary, at-within, at, max(within, step))
		if last {
			c = one
		}
		if known = known && ok; ok && histogram && !c.Timed() {
			v.lacks, known = noDurations, false
		}
		return argo.Counts{
			Other: c.Requests - c.Errors - c.ClientErrors, ClientErrors: c.ClientErrors, Errors: c.Errors, Long: within,
			Bounds: v.Bounds, Buckets: c.Buckets,
		}, nil
	})
	return value, known && err == nil
}

// kayenta compares the part of errors and the mean duration. A step without requests has no value.
func (r Rules) kayenta(v *view) (Opinion, time.Duration) {
	var errors, durations [2][]float64
	for to := step; to <= r.KayentaFor; to += step {
		for i, side := range []func(*traffic.Window) *traffic.Side{baseline, canary} {
			c, _, known := v.between(side, to-step, to, step)
			if known && !c.Timed() {
				v.lacks, known = noDurations, false
			}
			if !known {
				return Opinion{}, to - step
			}
			if c.Requests > 0 {
				errors[i] = append(errors[i], 100*c.Errors/c.Requests)
				durations[i] = append(durations[i], 1000*c.Seconds/c.Requests)
			}
		}
	}
	score := kayenta.Score(kayenta.Classify(errors[0], errors[1]), kayenta.Classify(durations[0], durations[1]))
	result := kayenta.Documented().Of(score)
	out := Opinion{Decision: Promotes, Verdict: string(result)}
	if result == kayenta.Failed {
		out.Decision = Stops
	}
	return out, r.KayentaFor
}

// Ours is what a verdict of the gate does with a release.
func Ours(v verdict.Verdict) Decision {
	switch v {
	case verdict.Pass, verdict.Warn:
		return Promotes
	case verdict.Fail:
		return Stops
	}
	return Undecided
}

// Versions says whose rules these are.
var Versions = "Flagger " + flagger.Version + ", Argo Rollouts " + argo.Version + ", Kayenta " + kayenta.Version

// Decided are the decisions that stop a release or let it pass.
func (d Decision) Decided() bool { return slices.Contains([]Decision{Promotes, Stops}, d) }

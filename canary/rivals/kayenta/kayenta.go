// SPDX-License-Identifier: Apache-2.0

// Package kayenta decides as NetflixACAJudge of Kayenta v2.46.0 does: each metric is compared by the test of Mann and
// Whitney, and the share of those that pass is the score.
//
// Its invariants: it is pure, and has no knowledge beyond the values of both sides.
package kayenta

import (
	"math"
	"slices"
)

// Version is the version of Kayenta whose rules these are.
const Version = "v2.46.0"

// The settings of NetflixJudgeConfigurationProperties.
const (
	// confidence is that of the interval.
	confidence = .98
	// tolerated is the part of the estimated difference that the interval must be above.
	tolerated = .25
)

// Class is how a metric is classified.
type Class string

// The classes.
const (
	Pass   Class = "Pass"
	High   Class = "High"
	Nodata Class = "Nodata"
	// Error: the test cannot be done.
	Error Class = "Error"
)

// Classify compares the values of a metric that must not increase, one for each step of time.
func Classify(control, experiment []float64) Class {
	switch {
	case len(control) == 0 || len(experiment) == 0:
		return Nodata
	case slices.Equal(slices.Sorted(slices.Values(control)), slices.Sorted(slices.Values(experiment))):
		return Pass
	}
	// Kayenta adds a little noise to values that are all alike, in proportion to them.
	if alike(control) && alike(experiment) {
		by := experiment[0] - control[0]
		switch noiseless := func(all []float64) bool { return len(all) == 1 || all[0] == 0 }; {
		case by != 0 && noiseless(control) && noiseless(experiment):
			return Error
		case by > 0:
			return High
		}
		return Pass
	}
	is := mannWhitney(experiment, control, confidence)
	if math.IsNaN(is.low) || math.IsNaN(is.estimate) {
		return Error
	}
	if is.low > tolerated*math.Abs(is.estimate) && grown(control, experiment) {
		return High
	}
	return Pass
}

// alike reports whether all values are the same.
func alike(all []float64) bool { return slices.Min(all) == slices.Max(all) }

// grown reports whether the mean is larger, or cannot be compared.
func grown(control, experiment []float64) bool {
	c, e := mean(control), mean(experiment)
	return c == 0 || e == 0 || e/c >= 1
}

func mean(all []float64) float64 {
	sum := 0.0
	for _, v := range all {
		sum += v
	}
	return sum / float64(len(all))
}

// Score is the part of the metrics that pass, as percentage, with equal weights. Without data for half of them, it is
// 0.
func Score(classes ...Class) float64 {
	passed, known, missing := 0., 0., 0.
	for _, c := range classes {
		switch c {
		case Pass:
			passed++
			known++
		case High:
			known++
		case Nodata:
			missing++
		case Error:
		}
	}
	if 2*missing >= float64(len(classes)) {
		return 0
	}
	if known == 0 {
		return 100
	}
	return 100 * passed / known
}

// Thresholds of a score.
type Thresholds struct{ Pass, Marginal float64 }

// Documented are the thresholds of json-formats.md.
func Documented() Thresholds { return Thresholds{Pass: 95, Marginal: 75} }

// Result is how a score is classified.
type Result string

// The results.
const (
	Passed   Result = "Pass"
	Marginal Result = "Marginal"
	Failed   Result = "Fail"
)

// Of classifies a score.
func (t Thresholds) Of(score float64) Result {
	switch {
	case score >= t.Pass:
		return Passed
	case score >= t.Marginal:
		return Marginal
	}
	return Failed
}

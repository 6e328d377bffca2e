// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"math"
	"slices"
)

// Judgement is what is known of a canary after the last judged window: the verdict, its reasons, and the
// figures that they are based on.
type Judgement struct {
	// Verdict is Running until there is a final one, which does not change.
	Verdict Verdict `json:"verdict"`
	// Reasons, the most important first.
	// +listType=atomic
	Reasons []Reason `json:"reasons,omitempty"`
	// Message tells the same to a person, with what the run waits for.
	Message string `json:"message,omitempty"`
	// From and To bound the judged windows. Nothing is said about any other time.
	From Time `json:"from,omitzero"`
	To   Time `json:"to,omitzero"`
	// Score is from 0 to 100 over the conclusive metrics, Coverage from 0 to 1.
	Score    float64 `json:"score"`
	Coverage float64 `json:"coverage"`
	// Samples that each side has, and still needs.
	Canary   Samples `json:"canary"`
	Baseline Samples `json:"baseline"`
	// RequiredShare and HandledShare of the canary over the judged windows. ExpectedShare is what
	// HandledShare is compared with: RequiredShare in an ordinary Service, the part of the requests whose
	// shards the placement plan gives the canary in a sharded one; nil if it is not compared.
	RequiredShare *float64 `json:"requiredShare,omitempty"`
	HandledShare  *float64 `json:"handledShare,omitempty"`
	ExpectedShare *float64 `json:"expectedShare,omitempty"`
	// Metrics has one result for each judged metric, in the order of the gate's spec.
	// +listType=atomic
	Metrics []MetricResult `json:"metrics,omitempty"`
}

// Samples counts finished requests. Missing is how many more are needed at least.
type Samples struct {
	Requests int64 `json:"requests"`
	Missing  int64 `json:"missing"`
	// Shards that can be compared, and how many more are needed; only if sharded.
	Shards        int64 `json:"shards,omitempty"`
	ShardsMissing int64 `json:"shardsMissing,omitempty"`
}

// MetricResult is what is known of one metric.
type MetricResult struct {
	Name    string  `json:"name"`
	Verdict Verdict `json:"verdict"`
	Reason  Reason  `json:"reason,omitempty"`
	DryRun  bool    `json:"dryRun,omitempty"`
	// Canary and Baseline are the ratios of bad requests, nil without requests.
	Canary   *float64 `json:"canary,omitempty"`
	Baseline *float64 `json:"baseline,omitempty"`
	// Low and High are the 95 % confidence limits of the difference (Newcombe 1998, method 10). They
	// are only shown, and decide nothing.
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
	// EFail and EPass are the e-values, EFailLimit and EPassLimit the values that they must reach.
	// EFail is the largest that may fail the metric; for sharded Services that excludes the comparison:
	// see P. They are shown up to 1e15.
	EFail      float64 `json:"eFail"`
	EFailLimit float64 `json:"eFailLimit"`
	EPass      float64 `json:"ePass"`
	EPassLimit float64 `json:"ePassLimit"`
	// P is the p-value of the permutation test at its last analysis, for sharded Services.
	P *float64 `json:"p,omitempty"`
	// Detail tells what changed most, such as the status code.
	Detail string `json:"detail,omitempty"`
	// Missing estimates how many more canary requests a verdict needs.
	Missing int64 `json:"missing,omitempty"`
}

// MissingRequests is how many more requests of the canary a verdict needs, as far as that is known: the
// minimum, or what a metric that counts needs beyond it.
func (j *Judgement) MissingRequests() int64 {
	missing := j.Canary.Missing
	for i := range j.Metrics {
		if m := &j.Metrics[i]; !m.DryRun {
			missing = max(missing, m.Missing)
		}
	}
	return missing
}

// Finite reports whether JSON can express all figures: it has neither NaN nor infinity.
func (j *Judgement) Finite() bool {
	all := []float64{j.Score, j.Coverage}
	optional := []*float64{j.RequiredShare, j.HandledShare, j.ExpectedShare}
	for i := range j.Metrics {
		m := &j.Metrics[i]
		all = append(all, m.EFail, m.EFailLimit, m.EPass, m.EPassLimit)
		optional = append(optional, m.Canary, m.Baseline, m.Low, m.High, m.P)
	}
	for _, f := range optional {
		if f != nil {
			all = append(all, *f)
		}
	}
	return !slices.ContainsFunc(all, func(f float64) bool { return math.IsNaN(f) || math.IsInf(f, 0) })
}

// DeepCopy returns a copy of all of it, or nil for nil. The generated copies of API objects call it.
func (j *Judgement) DeepCopy() *Judgement {
	if j == nil {
		return nil
	}
	out := *j
	out.Reasons = slices.Clone(j.Reasons)
	out.RequiredShare, out.HandledShare = clone(j.RequiredShare), clone(j.HandledShare)
	out.ExpectedShare = clone(j.ExpectedShare)
	out.Metrics = slices.Clone(j.Metrics)
	for i := range out.Metrics {
		m := &out.Metrics[i]
		m.Canary, m.Baseline, m.Low, m.High, m.P = clone(m.Canary), clone(m.Baseline), clone(m.Low), clone(m.High), clone(m.P)
	}
	return &out
}

func clone(f *float64) *float64 {
	if f == nil {
		return nil
	}
	out := *f
	return &out
}

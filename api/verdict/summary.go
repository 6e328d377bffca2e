// SPDX-License-Identifier: Apache-2.0

package verdict

// Summary is the part of a judgement that an event carries, and that the journal stores until the event is
// sent. It has no estimate, no e-value and no text of the judgement, so that an entry of the journal stays
// small.
type Summary struct {
	// Score is 0 to 100, Coverage 0 to 1.
	Score    float64 `json:"score"`
	Coverage float64 `json:"coverage"`
	// CanaryRequests and BaselineRequests count the judged requests.
	CanaryRequests   float64 `json:"canaryRequests"`
	BaselineRequests float64 `json:"baselineRequests"`
	// RequiredShare is the canary's traffic share in the Route, HandledShare its actual share.
	RequiredShare *float64        `json:"requiredShare,omitempty"`
	HandledShare  *float64        `json:"handledShare,omitempty"`
	Metrics       []MetricSummary `json:"metrics,omitempty"`
}

// MetricSummary is the verdict on one metric.
type MetricSummary struct {
	Name    string  `json:"name"`
	Verdict Verdict `json:"verdict"`
	Reason  Reason  `json:"reason,omitempty"`
	// Canary and Baseline are the ratios of bad requests, nil if unknown.
	Canary   *float64 `json:"canary,omitempty"`
	Baseline *float64 `json:"baseline,omitempty"`
}

// Summary returns the part for an event; that of nil, which is before the first judgement, is zero.
func (j *Judgement) Summary() Summary {
	if j == nil {
		return Summary{}
	}
	s := Summary{
		Score: j.Score, Coverage: j.Coverage,
		CanaryRequests: float64(j.Canary.Requests), BaselineRequests: float64(j.Baseline.Requests),
		RequiredShare: j.RequiredShare, HandledShare: j.HandledShare,
	}
	for _, m := range j.Metrics {
		s.Metrics = append(s.Metrics, MetricSummary{
			Name: m.Name, Verdict: m.Verdict, Reason: m.Reason, Canary: m.Canary,
			Baseline: m.Baseline,
		})
	}
	return s
}

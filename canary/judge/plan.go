// Package judge decides whether a canary is worse than its baseline, and how certain that
// is. It is pure: no clock, no I/O, no Kubernetes.
//
// Its invariants:
//   - Too little data is Inconclusive, and never Pass.
//   - Nothing unknown and nothing later masks a proven Fail.
//   - A check of every limit after every window does not make false alarms more likely
//     than Plan.Alpha.
//   - A Run that was written as JSON and read again continues with the same evidence.
package judge

import (
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// Plan is how a canary is judged. Every field counts as it stands: defaults are
// filled in by who makes the plan.
type Plan struct {
	// Alpha bounds the chance that a canary that is not worse fails, Beta that one
	// that is worse than is tolerated passes. Both are over the whole run and all
	// metrics.
	Alpha, Beta float64
	// Warmup is not judged, nor is a window that began in it. MinDuration must be over before a Pass, counted from the
	// start of the run. After Deadline a run that is undecided is Inconclusive.
	Warmup, MinDuration, Deadline time.Duration
	// MinCanary and MinBaseline are how many finished requests each side needs
	// before a Pass, or before a Fail by comparison.
	MinCanary, MinBaseline float64
	// Sharded Services are compared by shard. MinShards is how many each side needs.
	Sharded   bool
	MinShards int
	Metrics   []Metric
	Exposure  Exposure
	Limits    Limits
	Score     Score
}

// MetricKind is what is counted as bad.
type MetricKind string

// The kinds of metrics.
const (
	// Errors: requests that ended in an error or a time-out.
	Errors MetricKind = "ErrorRate"
	// EntryErrors: the same by the side where the request entered. What lies behind is the
	// same mixture for both sides there, so that requests are compared, not shards.
	EntryErrors MetricKind = "EntryErrors"
	// Slow: requests that took longer than Threshold.
	Slow MetricKind = "SlowRequests"
	// SlowerAnywhere compares at every bucket bound at once. It has no absolute
	// limit.
	SlowerAnywhere MetricKind = "SlowerAnywhere"
)

// Metric is one that is judged.
type Metric struct {
	Name string
	Kind MetricKind
	// Threshold of Slow, in seconds: the upper bound of a bucket.
	Threshold float64
	// MaxOddsRatio of bad requests, canary to baseline, that is tolerated: > 1.
	MaxOddsRatio float64
	// Limit is the ratio of bad requests above which the canary fails whatever the
	// baseline does; 0 is none.
	Limit float64
	// Negligible is the ratio of bad requests below which nothing is compared.
	Negligible float64
	// Weight in the score, > 0. If not Critical, a Fail of it lowers the score only.
	Weight   float64
	Critical bool
	// DryRun: judged and told, and counts for nothing.
	DryRun bool
}

// Exposure is how far the share that the canary really handles may be from the one
// that the Route gives it, as a ratio of the two.
type Exposure struct {
	Min, Max float64
	// Warn instead of Inconclusive if it handles too much.
	Warn bool
}

// Limits with which a canary fails whatever its counters say. Negative is none.
type Limits struct {
	// Restarts of the canary's containers.
	Restarts float64
	// Unaccounted requests, as a ratio of those that the canary started. If negative,
	// open ones are not judged either.
	Unaccounted float64
}

// Score is when a weighted score, from 0 to 100, is a Pass or a Warn; MinCoverage is
// the share of the weight that must have been conclusive.
type Score struct{ Pass, Warn, MinCoverage float64 }

// Window is what happened between two analyses.
type Window struct {
	// From and To bound the window.
	From, To time.Time
	// Canary and Baseline are what they did in it.
	Canary, Baseline Arm
	// Pods are the baseline's, by a name that is unique in the Service; those of which it
	// is not known what they did in the window are left out.
	Pods map[string]Arm
	// Shards that finished something in it, by a name that is unique in the Service.
	Shards map[string]ShardWindow
	// Required is the canary's share by the Route, Handled the one of what all
	// Revisions handled in this window; both from 0 to 1, Required negative if
	// unknown.
	Required, Handled float64
	// RequestTimeout is after which time the canary's requests are cut off.
	RequestTimeout time.Duration
	// Unsettled: shards were being handed over.
	Unsettled bool
	// Unanswering are pods of the canary that serve and cannot be read: what they do
	// is not known.
	Unanswering int
}

// Arm is one side of the comparison in one window. All are numbers of requests.
type Arm struct {
	// Finished in all; Errors among them, time-outs too. If OutcomesUnknown, Errors
	// says nothing.
	Finished, Errors float64
	OutcomesUnknown  string
	// Entered, and EntryErrors among them, count requests by the side where they entered. If
	// EntryUnknown is not empty, it is the reason why they say nothing.
	Entered, EntryErrors float64
	EntryUnknown         string
	// Above is how many took longer than a bound in seconds. If DurationsUnknown is
	// not empty, it is the reason why Above says nothing.
	Above            map[float64]float64
	DurationsUnknown string
	// Started and Unaccounted; StartedUnknown if nobody counts them. OverdueUnknown is why it
	// is not known yet whether some are.
	Started, Unaccounted float64
	StartedUnknown       bool
	OverdueUnknown       string
	// Open are begun and not finished at the end of the window. If OpenUnknown is not
	// empty, it is the reason why Open says nothing.
	Open        float64
	OpenUnknown string
	// Took is how many seconds the finished requests took together, 0 if unknown.
	Took     float64
	Restarts float64
}

// Counts of one shard on one side.
type Counts struct{ Finished, Errors, Slow float64 }

// ShardWindow is one shard in one window, by the side that handled its requests.
type ShardWindow struct{ Canary, Baseline Counts }

// Judgement is what is known after the last window.
type Judgement struct {
	// Verdict is Running until one is reached. Final ones do not change.
	Verdict verdict.Verdict `json:"verdict"`
	// Reasons, the weightiest first.
	Reasons []verdict.Reason `json:"reasons,omitempty"`
	// Message says the same to a person, with what is awaited.
	Message string `json:"message,omitempty"`
	// Score from 0 to 100 over the conclusive metrics, Coverage from 0 to 1.
	Score    float64 `json:"score"`
	Coverage float64 `json:"coverage"`
	// Samples that both sides have, and need at least.
	Canary   Samples `json:"canary"`
	Baseline Samples `json:"baseline"`
	// RequiredShare and HandledShare of the canary over the judged windows.
	RequiredShare *float64 `json:"requiredShare,omitempty"`
	HandledShare  *float64 `json:"handledShare,omitempty"`
	Metrics       []Result `json:"metrics,omitempty"`
}

// Samples are finished requests. Missing is how many more are needed at least.
type Samples struct {
	Requests float64 `json:"requests"`
	Missing  float64 `json:"missing"`
	// Shards that can be compared, and how many more are needed; only if sharded.
	Shards        int `json:"shards,omitempty"`
	ShardsMissing int `json:"shardsMissing,omitempty"`
}

// Result of one metric.
type Result struct {
	Name    string          `json:"name"`
	Verdict verdict.Verdict `json:"verdict"`
	Reason  verdict.Reason  `json:"reason,omitempty"`
	DryRun  bool            `json:"dryRun,omitempty"`
	// Canary and Baseline are the ratios of bad requests, nil without requests.
	Canary   *float64 `json:"canary,omitempty"`
	Baseline *float64 `json:"baseline,omitempty"`
	// Low and High bound the difference of the two with 95 % (Newcombe 1998, method
	// 10). They are to be shown, and decide nothing.
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
	// EFail and EPass are the e-values against the limits; EFailLimit and EPassLimit
	// are what each must reach. EFail is the largest of those that may fail the metric,
	// so that for sharded Services the comparison is not among them: see P. They are
	// shown up to 1e15.
	EFail      float64 `json:"eFail"`
	EFailLimit float64 `json:"eFailLimit"`
	EPass      float64 `json:"ePass"`
	EPassLimit float64 `json:"ePassLimit"`
	// P is the permutation test's at its last analysis, for sharded Services.
	P *float64 `json:"p,omitempty"`
	// Missing is an estimate of how many more canary requests a verdict needs.
	Missing float64 `json:"missing,omitempty"`
}

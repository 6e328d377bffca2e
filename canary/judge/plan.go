// SPDX-License-Identifier: Apache-2.0

// Package judge decides whether a canary is worse than its baseline, and how certain that
// is. It is pure: no clock, no I/O, no Kubernetes.
//
// Its invariants:
//   - Too little data is Inconclusive, and never Pass.
//
// - Nothing unknown masks a proven Fail, and a Fail is final. A comparison fails a canary only while it is still worse.
//   - A check of every limit after every window does not make false alarms more likely
//     than Plan.Alpha. A crash loop and an outage are no part of it.
//   - A Run that was written as JSON and read again continues with the same evidence.
package judge

import "time"

// Plan tells how a canary is judged. It has no defaults: its creator sets every field.
type Plan struct {
	// Alpha limits the probability that a canary that is no worse fails, Beta that one worse than
	// tolerated passes. Both hold over the whole run and all metrics.
	Alpha, Beta float64
	// Warmup is the age below which pods and shards are young: no metric judges their requests.
	// MinDuration, from the run's start, must pass before a Pass. After Deadline an undecided run is
	// Inconclusive.
	Warmup, MinDuration, Deadline time.Duration
	// MinCanary and MinBaseline are the finished requests that each side needs before a Pass, or before
	// a Fail by comparison.
	MinCanary, MinBaseline float64
	// Sharded Services are compared by shard. MinShards is how many each side needs.
	Sharded   bool
	MinShards int
	Metrics   []Metric
	// PastRequired makes a Pass a Warn if it is not known how bad the baseline was before the canary's first pod.
	PastRequired bool
	Exposure     Exposure
	Limits       Limits
	Score        Score
}

// MetricKind selects which requests count as bad.
type MetricKind string

// The kinds of metrics.
const (
	// Errors: requests that ended in an error or a timeout.
	Errors MetricKind = "ErrorRate"
	// EntryErrors: errors by the side where the request entered. Both sides have the same mixture
	// behind the entry, so this compares requests, not shards.
	EntryErrors MetricKind = "EntryErrors"
	// ClientErrors: requests that were answered with a 4xx code, by the side where they entered.
	ClientErrors MetricKind = "ClientErrors"
	// Slow: requests that took longer than Threshold.
	Slow MetricKind = "SlowRequests"
	// SlowerAnywhere compares at every histogram bound at once. It has no absolute limit.
	SlowerAnywhere MetricKind = "SlowerAnywhere"
	// Query: bad requests, as somebody else counts them. For sharded Services, it compares nothing: its
	// limit may fail it, and being negligible may pass it.
	Query MetricKind = "Query"
)

// Metric is one metric to judge.
type Metric struct {
	Name string
	Kind MetricKind
	// Threshold of Slow, in seconds: the upper bound of a histogram bucket.
	Threshold float64
	// MaxOddsRatio is the tolerated odds ratio of bad requests, canary to baseline: > 1.
	MaxOddsRatio float64
	// Limit is the ratio of bad requests above which the canary fails whatever the baseline does; 0
	// means none.
	Limit float64
	// Negligible is the ratio of bad requests below which nothing is compared.
	Negligible float64
	// IgnoreCodes of ClientErrors are no errors.
	IgnoreCodes []string
	// Weight in the score, > 0. If not Critical, a Fail only lowers the score.
	Weight   float64
	Critical bool
	// DryRun metrics are judged and reported but do not count.
	DryRun bool
}

// Exposure limits what the canary gets, as a ratio to what the Route gives it, and what it handles of a
// sharded Service, as a ratio to what a placement plan gives it.
type Exposure struct {
	// Min must be proven; 0 accepts any share.
	Min, Max float64
	// Warn instead of Inconclusive if it gets more than Max, and WarnLow if it may get less than Min.
	Warn, WarnLow bool
}

// Limits that fail a canary whatever its metrics say. Negative means none.
type Limits struct {
	// Restarts of the canary's containers.
	Restarts float64
	// CompareRestarts compares the restarts of both sides by the time that their pods ran. A crash loop of the canary
	// fails.
	CompareRestarts bool
	// Unaccounted requests, as a ratio of those that the canary started. If negative, open ones are not
	// judged either.
	Unaccounted float64
}

// Score sets when a weighted score, from 0 to 100, is a Pass or a Warn. MinCoverage is the share of the
// weight that must be conclusive.
type Score struct{ Pass, Warn, MinCoverage float64 }

// Window is what happened between two analyses.
type Window struct {
	// From and To bound the window.
	From, To time.Time
	// Canary and Baseline are what each side did in it.
	Canary, Baseline Arm
	// Young is the part of Canary and Baseline that pods did which were young when the window began.
	Young Young
	// Pods of the baseline, by a name that is unique in the Service, without young pods and those whose
	// counts in the window are unknown.
	Pods map[string]Arm
	// Shards that finished something in it, by a name that is unique in the Service, without what young
	// pods did.
	Shards map[string]ShardWindow
	// Lives are those of both sides' pods.
	Lives []Life
	// Required is the canary's share in the Route, Handled its share of what all Revisions handled in
	// this window. Both are from 0 to 1; a negative Required is unknown.
	Required, Handled float64
	// Entered is the canary's share of what entered at all Revisions.
	Entered float64
	// Planned compares handled requests with a placement plan; empty without one.
	Planned Planned
	// RequestTimeout is the timeout of the canary's requests.
	RequestTimeout time.Duration
	// Unsettled means that shards were being handed over. With UnsettledUnknown, it is taken to be as in the window
	// before.
	Unsettled, UnsettledUnknown bool
	// Unanswering counts the canary's serving pods whose counts are unknown: they cannot be scraped, or do not
	// tell them.
	Unanswering int
}

// Arm is one side of the comparison in one window. All values are numbers of requests.
type Arm struct {
	// Finished counts all requests, Errors those that failed or timed out, and Untold those of which it
	// is not known. OutcomesUnknown, if not empty, is the reason why Errors has no meaning.
	Finished, Errors, Untold float64
	OutcomesUnknown          string
	// Entered counts requests by the side where they entered, EntryErrors the failed ones, and
	// EntryUntold those of which it is not known. EntryUnknown, if not empty, is the reason why they have
	// no meaning.
	Entered, EntryErrors, EntryUntold float64
	EntryUnknown                      string
	// EntryTook is the total seconds of the entered requests, 0 if unknown.
	EntryTook float64
	// Codes counts entered requests by status code. A key that is not three digits is a code that is
	// not known. NoCodes means that nothing counts them.
	Codes   map[string]float64
	NoCodes bool
	// Above counts requests above each bound in seconds, and Untimed finished ones without a duration.
	// DurationsUnknown, if not empty, is the reason why Above has no meaning.
	Above            map[float64]float64
	Untimed          float64
	DurationsUnknown string
	// StartedUnknown means that nothing counts Started and Unaccounted. OverdueUnknown is why it is not
	// yet known whether some requests are overdue.
	Started, Unaccounted float64
	StartedUnknown       bool
	OverdueUnknown       string
	// Open counts requests that started and had not finished at the end of the window. OpenUnknown, if
	// not empty, is the reason why Open has no meaning.
	Open        float64
	OpenUnknown string
	// Took is the total seconds of the finished requests, 0 if unknown.
	Took     float64
	Restarts float64
	// Queried is what was counted for each metric of kind Query, by the metric's name.
	Queried map[string]Queried
}

// Queried counts requests, and the bad ones of them. Unknown, if not empty, is the reason why they have no
// meaning.
type Queried struct {
	Total   float64 `json:"total"`
	Bad     float64 `json:"bad"`
	Unknown string  `json:"unknown,omitempty"`
}

// Query sets what was counted for a metric.
func (a *Arm) Query(metric string, n Queried) {
	if a.Queried == nil {
		a.Queried = map[string]Queried{}
	}
	a.Queried[metric] = n
}

// Counts of one shard on one side.
type Counts struct{ Finished, Errors, Slow float64 }

// ShardWindow is one shard in one window, by the side that handled its requests.
type ShardWindow struct{ Canary, Baseline Counts }

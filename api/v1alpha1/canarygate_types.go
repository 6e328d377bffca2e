package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/tolerant"
)

// CanaryGate says how the canary of a Knative Service in its namespace is judged.
// `spec: {service: cart}` is enough.
//
// It judges nothing by itself: a run does, which is a Tekton CustomRun that refers to
// the gate, or, with `watch: true`, one that the gate opens at each new split of the
// Service's traffic and keeps in its status.
//
// +kubebuilder:object:root=true
type CanaryGate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CanaryGateSpec   `json:"spec"`
	Status CanaryGateStatus `json:"status,omitempty"`

	// Unread is what could not be read of it.
	Unread []tolerant.FieldError `json:"-"`
}

// CanaryGateSpec is also what a CustomRun may embed in place of a reference.
type CanaryGateSpec struct {
	// Service is the name of the Knative Service.
	Service string `json:"service"`
	// Canary is the name of the Revision that is judged; by default the newest of
	// those that the Route gives traffic to.
	Canary string `json:"canary,omitempty"`
	// Baseline is the name of the Revision that it is compared with; by default the
	// one with the largest share among the others.
	Baseline string `json:"baseline,omitempty"`
	// Watch opens a run at each new split.
	Watch bool `json:"watch,omitempty"`
	// DryRun judges and tells, and never stops anything.
	DryRun bool `json:"dryRun,omitempty"`

	Schedule *GateSchedule `json:"schedule,omitempty"`
	Minimum  *GateMinimum  `json:"minimum,omitempty"`
	// Metrics that must all pass; by default errors, errors by the Revision where requests
	// enter (for stateful Services), and requests slower than 0.5 s.
	Metrics    []GateMetric    `json:"metrics,omitempty"`
	Exposure   *GateExposure   `json:"exposure,omitempty"`
	Limits     *GateLimits     `json:"limits,omitempty"`
	Statistics *GateStatistics `json:"statistics,omitempty"`
	Score      *GateScore      `json:"score,omitempty"`
	// FailOn are the verdicts with which a CustomRun fails; by default Fail, Error
	// and Inconclusive. Pass cannot be among them.
	FailOn []string `json:"failOn,omitempty"`
}

// GateSchedule is when is looked, and for how long.
type GateSchedule struct {
	// Warmup is not judged: 30s by default.
	Warmup *Duration `json:"warmup,omitempty"`
	// Interval between two looks: 15s by default, 5s at least.
	Interval *Duration `json:"interval,omitempty"`
	// MinDuration before a Pass: 2m by default. A Fail may come at any time.
	MinDuration *Duration `json:"minDuration,omitempty"`
	// Timeout after which a run that is undecided is Inconclusive: 30m by default. A
	// CustomRun's own time-out, less two intervals, counts if it is shorter.
	Timeout *Duration `json:"timeout,omitempty"`
}

// GateMinimum is how much must have been seen before a Pass.
type GateMinimum struct {
	// CanaryRequests and BaselineRequests that were finished: 300 by default.
	CanaryRequests   *int64 `json:"canaryRequests,omitempty"`
	BaselineRequests *int64 `json:"baselineRequests,omitempty"`
	// Shards on each side, for sharded Services: 3 by default.
	Shards *int64 `json:"shards,omitempty"`
}

// GateMetric is one thing that is judged.
type GateMetric struct {
	// Name, unique in the gate; by default the type.
	Name string `json:"name,omitempty"`
	// Type is ErrorRate, EntryErrors, SlowRequests or SlowerAnywhere.
	Type string `json:"type"`
	// Threshold of SlowRequests, in seconds: one of the bounds of the histogram,
	// 0.5 by default.
	Threshold *float64 `json:"threshold,omitempty"`
	// MaxOddsRatio of bad requests, canary to baseline, that is tolerated: 1.5 by
	// default.
	MaxOddsRatio *float64 `json:"maxOddsRatio,omitempty"`
	// Limit is the ratio of bad requests with which the canary fails whatever the
	// baseline does; none by default.
	Limit *float64 `json:"limit,omitempty"`
	// Negligible is the ratio below which nobody compares: 0.005 by default.
	Negligible *float64 `json:"negligible,omitempty"`
	// Weight in the score: 1 by default.
	Weight *float64 `json:"weight,omitempty"`
	// Critical: a Fail of it is a Fail of the gate. True by default.
	Critical *bool `json:"critical,omitempty"`
	// DryRun: it is judged and told, and counts for nothing.
	DryRun bool `json:"dryRun,omitempty"`
}

// GateExposure is how far the canary's real share may be from what the Route says.
type GateExposure struct {
	// MinRatio and MaxRatio of the handled share to the one that the Route gives: 0.5
	// and 2 by default.
	MinRatio *float64 `json:"minRatio,omitempty"`
	MaxRatio *float64 `json:"maxRatio,omitempty"`
	// TooHigh is Inconclusive (default) or Warn: what a share above MaxRatio makes
	// of a Pass.
	TooHigh string `json:"tooHigh,omitempty"`
}

// GateLimits fail a canary whatever its counters say.
type GateLimits struct {
	// Restarts of the canary's containers that are tolerated: 0 by default.
	Restarts *int64 `json:"restarts,omitempty"`
	// UnaccountedRatio of the requests that it began and neither finished nor
	// answered within the time-out: 0.01 by default.
	UnaccountedRatio *float64 `json:"unaccountedRatio,omitempty"`
}

// GateStatistics bound how often a verdict is wrong.
type GateStatistics struct {
	// Alpha, of a Fail: 0.05 by default.
	Alpha *float64 `json:"alpha,omitempty"`
	// Beta, of a Pass: 0.05 by default.
	Beta *float64 `json:"beta,omitempty"`
}

// GateScore is what the weighted score makes of a verdict.
type GateScore struct {
	// Pass and Warn, from 0 to 100: 90 and 75 by default.
	Pass *float64 `json:"pass,omitempty"`
	Warn *float64 `json:"warn,omitempty"`
	// MinCoverage of the weight that must be conclusive, from 0 to 1: 0.5 by default.
	MinCoverage *float64 `json:"minCoverage,omitempty"`
}

// Conditions of a CanaryGate beside Ready.
const (
	// GateServiceFound: the Service exists and its traffic is known.
	GateServiceFound = "ServiceFound"
	// GateMeasured: what its metrics need is measured; False says what is missing, as
	// EntryMetricsUnavailable.
	GateMeasured = "Measured"
)

// CanaryGateStatus is what became of it.
type CanaryGateStatus struct {
	duckv1.Status `json:",inline"`
	// Latest is the newest run, whoever opened it: the gate, or a CustomRun that refers
	// to it.
	Latest *GateLatest `json:"latest,omitempty"`
	// Run is the one that is under way, or the last one, of a gate that watches.
	Run *GateRun `json:"run,omitempty"`
}

// GateLatest is how a run stands, in words.
type GateLatest struct {
	// ID of the run.
	ID string `json:"id"`
	// CustomRun that asked for it; empty if the gate opened it by itself.
	CustomRun string      `json:"customRun,omitempty"`
	StartTime metav1.Time `json:"startTime"`
	Verdict   string      `json:"verdict"`
	// Reasons, the weightiest first, separated by commas.
	Reasons string `json:"reasons,omitempty"`
	Message string `json:"message,omitempty"`
	// Canary is the name of the Revision that is judged.
	Canary string `json:"canary,omitempty"`
	// Requests that the canary finished.
	Requests string `json:"requests,omitempty"`
	// Missing is what is needed at least for a verdict, as "40 canary, 100 baseline".
	Missing string `json:"missing,omitempty"`
}

// GateRun is one judgement of one canary. Without its spec and its evidence it is also
// the extraFields of a CustomRun.
type GateRun struct {
	// ID is different for each run.
	ID string `json:"id"`
	// Gate is the name of the CanaryGate; empty where a CustomRun embeds it.
	Gate string `json:"gate,omitempty"`
	// Service, Canary and Baseline are frozen when the run begins.
	Service  GateObject  `json:"service"`
	Canary   GateObject  `json:"canary"`
	Baseline *GateObject `json:"baseline,omitempty"`
	// Split is the percentage of each Revision when the run began.
	Split map[string]int64 `json:"split,omitempty"`
	// Minimum that must have been seen before a Pass.
	Minimum *GateMinimum `json:"minimum,omitempty"`
	// Spec is the gate's, with defaults and params, when the run began. It stands in the
	// CanaryGateRun.
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec *runtime.RawExtension `json:"spec,omitempty"`

	StartTime      metav1.Time  `json:"startTime"`
	Deadline       metav1.Time  `json:"deadline"`
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// Verdict is Running, Pass, Warn, Fail, Inconclusive, Superseded or Error.
	Verdict string   `json:"verdict"`
	Reasons []string `json:"reasons,omitempty"`
	Message string   `json:"message,omitempty"`
	// Report holds the numbers: judge.Judgement.
	// +kubebuilder:pruning:PreserveUnknownFields
	Report *runtime.RawExtension `json:"report,omitempty"`
	// Evidence is what judging goes on from after a restart. It stands in the
	// CanaryGateRun.
	// +kubebuilder:pruning:PreserveUnknownFields
	Evidence *runtime.RawExtension `json:"evidence,omitempty"`
}

// GateObject is an object that a run is about.
type GateObject struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// CanaryGateList is a list of CanaryGate.
//
// +kubebuilder:object:root=true
type CanaryGateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []CanaryGate `json:"items"`
}

// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// Conditions of a CanaryGate beside Ready.
const (
	// GateValid says whether the spec is valid.
	GateValid = "Valid"
	// GateServiceFound says whether the Service exists and its traffic is known.
	GateServiceFound = "ServiceFound"
	// GateMeasured says whether the data that the gate's metrics need is measured. If it
	// is False, the reason says what is missing, such as EntryMetricsUnavailable.
	GateMeasured = "Measured"
	// GateTemplateApplied says whether the template that the gate refers to exists and is valid. Only
	// gates with a templateRef have it.
	GateTemplateApplied = "TemplateApplied"
)

// CanaryGateStatus is the observed state of a CanaryGate.
type CanaryGateStatus struct {
	duckv1.Status `json:",inline"`
	// latest is a summary of the newest run, no matter whether the gate started it or a
	// CustomRun that refers to the gate.
	Latest *GateLatest `json:"latest,omitempty"`
	// history lists the last finished runs, newest first: those that the gate started, and those
	// of CustomRuns that refer to the gate. spec.historyLimit is how many.
	// +listType=atomic
	History []GatePastRun `json:"history,omitempty"`
	// template is the template that the gate refers to, and what a run that begins now takes from it.
	Template *GateTemplateUse `json:"template,omitempty"`
	// run is the run in progress, or else the last run, of a gate with watch set to true.
	Run *GateRun `json:"run,omitempty"`
}

// GateRunSummary is what the status says of every run.
type GateRunSummary struct {
	// id identifies the run.
	ID string `json:"id"`
	// customRun is the name of the CustomRun that the run belongs to. It is empty if the
	// gate started the run itself.
	CustomRun string `json:"customRun,omitempty"`
	// service is the name of the Knative Service that the run judges. A CustomRun may name another one than the gate.
	Service string `json:"service,omitempty"`
	// startTime is the time at which the run began.
	StartTime metav1.Time `json:"startTime"`
	// verdict is the verdict of the run: Running, Pass, Warn, Fail, Inconclusive, Superseded or
	// Error. Treat one that you do not know as Inconclusive.
	Verdict verdict.Verdict `json:"verdict"`
	// reasons are the reasons for the verdict, most important first, in CamelCase.
	// +listType=atomic
	Reasons []string `json:"reasons,omitempty"`
	// canary is the name of the Revision that the run judges.
	Canary string `json:"canary,omitempty"`
	// baseline is the name of the Revision that the canary is compared with.
	Baseline string `json:"baseline,omitempty"`
	// requests is the number of requests that each side has finished.
	Requests *GateRequests `json:"requests,omitempty"`
}

// GateLatest is a summary of the newest run.
type GateLatest struct {
	GateRunSummary `json:",inline"`
	// message is a human-readable explanation of the verdict.
	Message string `json:"message,omitempty"`
	// missing is the least that a verdict still needs. It is omitted if nothing is missing.
	Missing *GateMissing `json:"missing,omitempty"`
}

// GateRequests counts the finished requests of each side.
type GateRequests struct {
	// canary is the number of requests that the canary has finished.
	Canary int64 `json:"canary"`
	// baseline is the number of requests that the baseline has finished.
	Baseline int64 `json:"baseline"`
}

// GateMissing is the least that a verdict still needs.
type GateMissing struct {
	// canaryRequests is the number of requests that the canary must still finish.
	CanaryRequests int64 `json:"canaryRequests,omitempty"`
	// baselineRequests is the number of requests that the baseline must still finish.
	BaselineRequests int64 `json:"baselineRequests,omitempty"`
	// canaryShards is the number of shards that the canary still needs, in sharded Services.
	CanaryShards int64 `json:"canaryShards,omitempty"`
	// baselineShards is the number of shards that the baseline still needs, in sharded Services.
	BaselineShards int64 `json:"baselineShards,omitempty"`
}

// GatePastRun is a finished run.
type GatePastRun struct {
	GateRunSummary `json:",inline"`
	// completionTime is the time at which the run ended.
	CompletionTime metav1.Time `json:"completionTime"`
}

// GateEffective is what a run takes: the policy of the gate or of its template, with what is chosen when
// the run begins.
type GateEffective struct {
	// template is the template of the run, and what the run takes from it. It is omitted if the gate
	// refers to no template.
	Template *GateTemplateUse `json:"template,omitempty"`
	// Of the policy, the timeout is what is left of the CustomRun's, if that is less than the gate's,
	// and metrics that do not apply to the Service are left out as soon as that is known.
	GatePolicy `json:",inline"`
	// dryRun specifies that the run judges and reports, but stops nothing.
	DryRun bool `json:"dryRun,omitempty"`
}

// GateTemplateUse is what a gate or a run takes from a ClusterCanaryGateTemplate.
type GateTemplateUse struct {
	// name is the name of the template.
	Name string `json:"name"`
	// generation is the generation of the template's spec.
	Generation int64 `json:"generation"`
	// groups are the groups that the template states, such as metrics.
	// +listType=atomic
	Groups []string `json:"groups,omitempty"`
	// replaced are the groups that the gate states in another way, and that do not apply.
	// +listType=atomic
	Replaced []string `json:"replaced,omitempty"`
}

// GateRun is one judgement of one canary. Without its spec and evidence, it is also the
// content of a CustomRun's extraFields.
type GateRun struct {
	// id identifies the run. It is different for each run.
	ID string `json:"id"`
	// gate is the name of the CanaryGate. It is empty if a CustomRun embeds the spec.
	Gate string `json:"gate,omitempty"`
	// service is the Knative Service that the run is about.
	Service GateObject `json:"service"`
	// canary is the Revision that the run judges. It does not change during the run.
	Canary GateObject `json:"canary"`
	// baseline is the Revision that the canary is compared with. It does not change during
	// the run.
	Baseline *GateObject `json:"baseline,omitempty"`
	// split is how the traffic was divided between Revisions when the run began: the largest
	// share first, then by name.
	// +listType=map
	// +listMapKey=revision
	Split []GateShare `json:"split,omitempty"`
	// effective is what the run takes.
	Effective *GateEffective `json:"effective,omitempty"`
	// spec is the gate's spec, with defaults and params, when the run began. It is stored in
	// the CanaryGateRun only.
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec *runtime.RawExtension `json:"spec,omitempty"`

	// startTime is the time at which the run began.
	StartTime metav1.Time `json:"startTime"`
	// deadline is the time at which an undecided run becomes Inconclusive.
	Deadline metav1.Time `json:"deadline"`
	// waitingSince is the time since when the run waits for the shards to be where the plan
	// wants them. It is stored in the CanaryGateRun only.
	WaitingSince *metav1.Time `json:"waitingSince,omitempty"`
	// placedSince is when a run that waited for the shards found them in place. It is present until the pods have been
	// scraped again, and only in the CanaryGateRun.
	PlacedSince *metav1.MicroTime `json:"placedSince,omitempty"`
	// completionTime is the time at which the run ended. It is not set while the run is in
	// progress.
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// splitEndTime is the time at which the gate noticed that the split which the run judged was
	// no longer in force, or that the gate names another Service. It stays when the split comes
	// back, which another run judges.
	SplitEndTime *metav1.Time `json:"splitEndTime,omitempty"`
	// verdict is Running, or the verdict with which the run ended: Pass, Warn, Fail,
	// Inconclusive, Superseded or Error. Treat one that you do not know as Inconclusive.
	Verdict verdict.Verdict `json:"verdict"`
	// reasons are the reasons for the verdict, most important first, in CamelCase.
	// +listType=atomic
	Reasons []string `json:"reasons,omitempty"`
	// message is a human-readable explanation of the verdict. It says what the run waits
	// for.
	Message string `json:"message,omitempty"`
	// report contains the numbers that the verdict is based on. It is not set before the pods
	// of the Service have been scraped.
	Report *verdict.Judgement `json:"report,omitempty"`
	// evidence is what judging continues from after a restart. It is stored in the
	// CanaryGateRun only.
	// +kubebuilder:pruning:PreserveUnknownFields
	Evidence *runtime.RawExtension `json:"evidence,omitempty"`
}

// GateShare is the share of the traffic that a Revision had when a run began.
type GateShare struct {
	// revision is the name of the Revision.
	Revision string `json:"revision"`
	// percent is the percentage of the traffic that it had.
	Percent int64 `json:"percent"`
}

// GateObject identifies an object that a run is about.
type GateObject struct {
	// name is the name of the object.
	Name string `json:"name"`
	// uid is the UID of the object.
	UID types.UID `json:"uid"`
}

// Obstacle returns the condition that says why the gate cannot start a run, whatever its Service does: its spec or its
// template is wrong. It is nil if neither is.
func (s *CanaryGateStatus) Obstacle() *apis.Condition {
	for _, of := range []apis.ConditionType{GateValid, GateTemplateApplied} {
		if c := s.GetCondition(of); c.IsFalse() {
			return c
		}
	}
	return nil
}

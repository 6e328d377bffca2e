// SPDX-License-Identifier: Apache-2.0

// Package attribution counts which Revision handled which requests. It has no clock and does no I/O.
//
// Its invariants:
//   - The counts of a Revision never decrease while this process counts, even if pods die,
//     restart, reset their counters or report false numbers.
//   - Nothing is counted twice.
//   - An unknown figure is missing with a reason; it is never zero.
package attribution

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Facts describe a Service, without the counts of its pods.
type Facts struct {
	Revisions []Revision
	Pods      []Pod
	// Claimed lists existing pods that may belong to the Service.
	Claimed []types.UID
	// OneCall means that every request makes one call of one entity, so requests and calls are
	// comparable.
	OneCall bool
}

// Revision is an existing Revision. A stateful one handles requests that entered elsewhere; another one handles what
// enters there. Of one that declares a cluster wrongly, it is unknown where its requests are handled.
type Revision struct {
	// The caches share it: nothing in it may be changed.
	*lifecycle.Revision
	Configuration string
	// Required is its share of the requests, from 0 to 1, in the Route's current split; nil if no split
	// is in effect.
	Required *float64
	// Timeout is the request timeout; 0 means Serving's default.
	Timeout time.Duration
	// ClusterMembers is the number of its pods in the stateful cluster. ClusterShards is the number of
	// shards these hold, over all entity types. Nil is unknown.
	ClusterMembers, ClusterShards *float64
}

// DefaultTimeout is Serving's revision-timeout-seconds.
const DefaultTimeout = 5 * time.Minute

// Pod is an existing pod that is known to belong to one of the Revisions.
type Pod struct {
	UID      types.UID
	Revision types.UID
	// Restarts counts restarts of all user containers. OOMKilled means that one of them last ended for
	// lack of memory, Failed that the pod has ended for good.
	Restarts  int
	OOMKilled bool
	Failed    bool
	Ready     bool
	// Running means that its containers have started and are not about to be ended for good. One that is started again
	// is running, too. CrashLoop means that the kubelet waits before it does so, because the container has ended too
	// often.
	Running, CrashLoop bool
	// Disrupted means that what ends or restarts its containers lies outside of the pod, such as a drained node.
	Disrupted bool
	// Began is when the kubelet accepted the pod; zero if that is not known.
	Began time.Time
	// Started is when the youngest process of its user containers started, and ReadySince when the pod last
	// became ready; zero if that is not known.
	Started, ReadySince time.Time
}

// Reason tells why a figure is missing. It is a label value, so there are few.
type Reason string

// The reasons for which a gate cannot judge.
//
//reasons:table CanaryGate/Measured
const (
	// NotRead: no pod has been read yet. Wait; a Service without pods is read when it gets requests.
	NotRead Reason = "NotRead"
	// NothingCounted: the pods export no series that counts handled requests. Check the annotations and mappings.
	NothingCounted Reason = "NothingCounted"
	// InvalidAnnotations: the Revision declares a stateful cluster with annotations that are not valid. Correct them.
	InvalidAnnotations Reason = "InvalidAnnotations"
	// OutcomesUnknown: the application does not export how requests ended. Let it export what the message names.
	OutcomesUnknown Reason = "OutcomesUnknown"
	// DurationsUnknown: the application exports no durations. Let it export them, or judge by other metrics.
	DurationsUnknown Reason = "DurationsUnknown"
	// BucketsDiffer: durations are not counted in the fixed buckets. Use these, or a threshold that is one of its own.
	BucketsDiffer Reason = "BucketsDiffer"
	// EntryMetricsUnavailable: Serving exports no request metrics. Ask an operator to run the command in the message.
	EntryMetricsUnavailable Reason = "EntryMetricsUnavailable"
	// EntryOutcomesUnknown: requests come over HTTP/2, as gRPC does, which hides their outcomes. Judge by other metrics.
	EntryOutcomesUnknown Reason = "EntryOutcomesUnknown"
)

// Other reasons why a figure is missing. Only metrics have them.
const (
	// StartedUnknown: the application does not export which requests it started.
	StartedUnknown Reason = "StartedUnknown"
	// NoSplit: the Route has no split in effect. NoRequests: nothing was handled in the window.
	// WindowTooShort: the Service has not been watched for long enough.
	NoSplit        Reason = "NoSplit"
	NoRequests     Reason = "NoRequests"
	WindowTooShort Reason = "WindowTooShort"
	// CallsPerRequestUnknown: entered requests and started calls are not comparable.
	CallsPerRequestUnknown Reason = "CallsPerRequestUnknown"
)

// NoData says that a figure is missing for a Revision, or for the Service itself if Revision is empty.
type NoData struct {
	Revision types.UID
	// Figure is the exported name, without canary_.
	Figure string
	Reason Reason
	// Detail tells a person what was seen instead; it may be empty.
	Detail string
}

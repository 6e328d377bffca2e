// Package attribution counts which Revision handled which requests. It has no clock and
// does no I/O.
//
// Its invariants:
//   - The counts of a Revision never decrease while this process counts, even if pods die,
//     restart, reset their counters or report false numbers.
//   - Nothing is counted twice.
//   - What is not known is missing with a reason, and never zero.
package attribution

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Facts are the state of a Service, without the counts of its pods.
type Facts struct {
	Revisions []Revision
	Pods      []Pod
	// Claimed are existing pods that may belong to the Service.
	Claimed []types.UID
	// OneCall: every request makes one call of one entity, so requests and calls can be
	// compared.
	OneCall bool
}

// Revision is one that exists.
type Revision struct {
	UID                 types.UID
	Name, Configuration string
	// Required is its share of the requests, from 0 to 1, as the Route has it in
	// force; nil where no split is in force.
	Required *float64
	// Timeout of a request; 0 is Serving's default.
	Timeout time.Duration
	// Stateful: its pods handle what others took in. Otherwise what entered at a pod
	// was handled there.
	Stateful bool
	// Misdeclared: it says that they do, and not so that it can be read. Where its
	// requests are handled is not known then, and certainly not where they entered.
	Misdeclared bool
	// ClusterMembers are its pods in the stateful cluster, and ClusterShards what
	// these hold of all entity types; nil if unknown.
	ClusterMembers, ClusterShards *float64
}

// DefaultTimeout of a request is Serving's revision-timeout-seconds.
const DefaultTimeout = 5 * time.Minute

// Pod is one that exists and belongs to one of the Revisions for certain.
type Pod struct {
	UID      types.UID
	Revision types.UID
	// Incarnation changes whenever the application's container is started again;
	// empty where a pod has several, and it is not known which of them counts.
	Incarnation string
	// Restarts of all containers of the user, OOMKilled those that ended for want of
	// memory, as far as the pod still tells; Failed: its processes were ended for good.
	Restarts  int
	OOMKilled bool
	Failed    bool
	Ready     bool
}

// Reason why a figure is missing. They are few, and stand in a label.
type Reason string

// The reasons.
const (
	// NotRead: no pod of the Revision was read yet.
	NotRead Reason = "NotRead"
	// NothingCounted: the pods were read, and no series that counts handled requests
	// was among theirs.
	NothingCounted Reason = "NothingCounted"
	// Misdeclared: the Revision declares a stateful cluster with wrong annotations.
	Misdeclared Reason = "Misdeclared"
	// OutcomesUnknown: the application does not say how requests ended.
	OutcomesUnknown Reason = "OutcomesUnknown"
	// DurationsUnknown and BucketsDiffer: it does not say how long they took, or in
	// other buckets than the fixed ones.
	DurationsUnknown Reason = "DurationsUnknown"
	BucketsDiffer    Reason = "BucketsDiffer"
	// StartedUnknown: it does not say which requests it began.
	StartedUnknown Reason = "StartedUnknown"
	// EntryMetricsUnavailable: queue-proxy tells nothing; Serving's
	// request-metrics-protocol is not prometheus.
	EntryMetricsUnavailable Reason = "EntryMetricsUnavailable"
	// EntryOutcomesUnknown: requests came over HTTP/2, as gRPC does, whose outcomes
	// queue-proxy cannot see.
	EntryOutcomesUnknown Reason = "EntryOutcomesUnknown"
	// NoSplit: the Route has no split in force. NoRequests: nothing was handled in
	// the window. WindowTooShort: not watched for long enough.
	NoSplit        Reason = "NoSplit"
	NoRequests     Reason = "NoRequests"
	WindowTooShort Reason = "WindowTooShort"
	// CallsPerRequestUnknown: what entered cannot be compared with what was started.
	CallsPerRequestUnknown Reason = "CallsPerRequestUnknown"
)

// NoData says that a figure of a Revision is missing; of the Service itself if the
// Revision is empty.
type NoData struct {
	Revision types.UID
	// Figure is the exported name, without canary_.
	Figure string
	Reason Reason
	// Detail is what was seen instead, in words for a person; it may be empty.
	Detail string
}

// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
)

// The Lease of the doorbell, which only the serverless mode has, and the annotation in which it notes what is answered.
const (
	DoorbellLease      = "doorbell"
	AnsweredAnnotation = GroupName + "/answered"
)

// DoorbellHolds reports whether a doorbell holds its Lease at a time: it runs, and the core answers it.
func DoorbellHolds(lease *coordinationv1.Lease, at time.Time) bool {
	return ptr.Deref(lease.Spec.HolderIdentity, "") != "" && DoorbellRuns(lease, at)
}

// DoorbellRuns reports whether a doorbell has renewed its Lease in time. One that has ended a moment ago counts, too.
func DoorbellRuns(lease *coordinationv1.Lease, at time.Time) bool {
	l := lease.Spec
	return l.RenewTime != nil && l.LeaseDurationSeconds != nil &&
		at.Before(l.RenewTime.Add(time.Duration(*l.LeaseDurationSeconds)*time.Second))
}

// LastRing returns when a ring was last answered, as the annotations of the doorbell's Lease have it: it is up to a few
// minutes old. It is zero if they do not say.
func LastRing(annotations map[string]string) time.Time {
	var account struct {
		LastRing time.Time `json:"lastRing"`
	}
	if json.Unmarshal([]byte(annotations[AnsweredAnnotation]), &account) != nil {
		return time.Time{}
	}
	return account.LastRing
}

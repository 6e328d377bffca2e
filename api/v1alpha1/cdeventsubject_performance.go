// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Performance counts what DORA's metrics of software delivery are made of, since the controller first saw the object.
type Performance struct {
	// deployments is the number of deployments that got all traffic.
	Deployments int64 `json:"deployments,omitempty"`
	// stopped is the number of canaries that were withdrawn before they had all traffic.
	Stopped int64 `json:"stopped,omitempty"`
	// failures is the number of deployments with all traffic that failed later.
	Failures int64 `json:"failures,omitempty"`
	// leadTime counts the times from a commit to all traffic.
	LeadTime *DurationCounts `json:"leadTime,omitempty"`
	// restore counts the times from the beginning of a failure to its end.
	Restore *DurationCounts `json:"restore,omitempty"`
	// recent lists the last deployments, oldest first. They may still fail.
	Recent []RecentDeployment `json:"recent,omitempty"`
}

// DurationCounts is a histogram of durations.
type DurationCounts struct {
	// counts is the number of durations in each bucket, smallest first. Those of further buckets are 0.
	Counts []int64 `json:"counts"`
	// milliseconds is the sum of all durations.
	Milliseconds int64 `json:"milliseconds"`
}

// RecentDeployment is a deployment that may still fail.
type RecentDeployment struct {
	// revision is the name of the Revision.
	Revision string `json:"revision"`
	// time is when it got all traffic.
	Time metav1.MicroTime `json:"time"`
	// failed is true if its failure is counted.
	Failed bool `json:"failed,omitempty"`
}

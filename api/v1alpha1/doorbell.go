// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"time"
)

// The Lease of the doorbell, which only the serverless mode has, and the annotation in which it notes what is answered.
const (
	DoorbellLease      = "doorbell"
	AnsweredAnnotation = GroupName + "/answered"
)

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

// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/advice"
	"github.com/knative-cdevents/knative-cdevents/cli/reader"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// The modes.
const (
	Resident   = "resident"
	Serverless = "serverless"
)

// Mode says who observes and sends: the controller, or the core, which the doorbell rings.
type Mode struct {
	Name string `json:"name"`
	// Controller is asleep, awake, or missing; Why is why, and ControllerSince since when, as far as that is known.
	Controller      string     `json:"controller,omitempty"`
	Why             string     `json:"why,omitempty"`
	ControllerSince *time.Time `json:"controllerSince,omitempty"`
	// Doorbell is running; unanswered if the core does not answer it, or it has just ended; or missing if it has not
	// renewed its Lease in time.
	Doorbell     string     `json:"doorbell,omitempty"`
	DoorbellSeen *time.Time `json:"doorbellSeen,omitempty"`
	// LastRing is when the core answered last, up to a few minutes old.
	LastRing *time.Time `json:"lastRing,omitempty"`
	// Owed is what the ledger says is still to be done; nil if the user may not read it.
	Owed *Owed `json:"owed,omitempty"`
}

// Owed is what is to be done later, without any change.
type Owed struct {
	// Retries are the events that a sink has not accepted yet, for each source and Service; Limits are the Services of
	// which something is announced when it has lasted for its limit.
	Retries int `json:"retries"`
	Limits  int `json:"limits"`
	// Next is when the first of them is due.
	Next *time.Time `json:"next,omitempty"`
}

// modeOf says which mode it is at a time. The entries are nil if they may not be read.
func modeOf(s *reader.Serverless, entries []v1alpha1.CDEventSubject, mayRead bool, now time.Time) *Mode {
	if s == nil {
		return &Mode{Name: Resident}
	}
	out := &Mode{Name: Serverless, Controller: "missing", Doorbell: advice.DoorbellMissing}
	if d := s.Controller; d != nil {
		out.Controller = "awake"
		if d.Spec.Replicas != nil && *d.Spec.Replicas == 0 {
			out.Controller = "asleep"
		}
		// The annotation may be of an earlier time, if somebody scales the Deployment.
		if why, is := strings.CutPrefix(d.Annotations[v1alpha1.AwakeAnnotation], out.Controller+": "); is {
			out.Why = why
			if at, err := time.Parse(time.RFC3339, d.Annotations[v1alpha1.AwakeAtAnnotation]); err == nil {
				out.ControllerSince = utc(at)
			}
		}
	}
	if at := s.Lease.Spec.RenewTime; at != nil {
		out.DoorbellSeen = utc(at.Time)
	}
	switch {
	case v1alpha1.DoorbellHolds(s.Lease, now):
		out.Doorbell = advice.DoorbellRunning
	case v1alpha1.DoorbellRuns(s.Lease, now):
		out.Doorbell = advice.DoorbellUnanswered
	}
	if at := v1alpha1.LastRing(s.Lease.Annotations); !at.IsZero() {
		out.LastRing = utc(at)
	}
	if mayRead {
		out.Owed = owedOf(entries)
	}
	return out
}

func owedOf(entries []v1alpha1.CDEventSubject) *Owed {
	out := &Owed{}
	for i := range entries {
		e := &entries[i]
		for _, a := range e.Status.Attempts {
			if a.Tries > 0 {
				out.Retries++
			}
		}
		if e.Status.Due != nil {
			out.Limits++
		}
		if at := ledger.Woken(e); !at.IsZero() && (len(e.Status.Attempts) > 0 || e.Status.Due != nil) &&
			(out.Next == nil || at.Before(*out.Next)) {
			out.Next = utc(at)
		}
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0

package gaterun

import (
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// ShouldOpen reports whether a gate that watches opens a run: there is something to compare, and the last run did not
// judge it.
func ShouldOpen(last *v1alpha1.GateRun, spec *v1alpha1.CanaryGateSpec, s *Service) bool {
	pair, p := Choose(spec.Service, s, spec.Canary, spec.Baseline)
	switch {
	case p != nil:
		return false
	case last == nil:
		return true
	case last.CompletionTime == nil:
		return false
	}
	return last.Service.Name != spec.Service || !s.JudgedBy(last, pair)
}

// NoteSplit notes in the last run of a gate if its split is no longer in force, so that the run does not stand for the
// same split when that comes back. name is that of the Service that the gate names, and s its state, nil if it does not
// exist.
func NoteSplit(last *v1alpha1.GateRun, name string, s *Service, now time.Time) {
	over := last.Service.Name != name
	if !over {
		reason, _ := superseded(last, s)
		over = reason != ""
	}
	if over && last.SplitEndTime == nil {
		at := toSeconds(now)
		last.SplitEndTime = &at
	}
}

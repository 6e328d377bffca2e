// SPDX-License-Identifier: Apache-2.0

package gaterun

import "github.com/knative-cdevents/knative-cdevents/api/v1alpha1"

// ShouldOpen reports whether a gate that watches opens a run: there is a split, and the
// last run judged another one. divided says whether there was a split at the last
// reconcile: a split that ended and started again is a new one.
func ShouldOpen(last *v1alpha1.GateRun, name string, s *Service, divided bool) bool {
	switch {
	case s == nil || !s.Divided():
		return false
	case last == nil:
		return true
	case last.CompletionTime == nil:
		return false
	case last.Service.Name != name || last.Service.UID != s.UID || !divided:
		return true
	case s.Rollout && len(last.Split) > 1:
		// All steps of one rollout share one run.
		return !s.splits(SplitOf(last))
	}
	canary, exists := s.Revision(last.Canary.UID)
	return !exists || s.Traffic.Percent(canary.Name) == 0 || !s.splits(SplitOf(last))
}

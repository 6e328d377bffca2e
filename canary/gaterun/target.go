// SPDX-License-Identifier: Apache-2.0

package gaterun

import (
	"fmt"
	"slices"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Reasons why a run cannot start. They are values of a metric label, so there must be few.
//
//reasons:table CanaryGate/ServiceFound CanaryGate/Run
const (
	// ServiceNotFound: the Knative Service does not exist in this namespace. Create it, or name another one.
	ServiceNotFound = "ServiceNotFound"
	// TrafficUnknown: the Route is not Ready for its latest spec. Find out why: describe the Service.
	TrafficUnknown = "TrafficUnknown"
	// NoSplit: all traffic goes to one Revision. Give the canary a share when you want a verdict.
	NoSplit = "NoSplit"
	// RevisionNotInSplit: a Revision that the gate names gets no traffic. Give it a share, or name another one.
	RevisionNotInSplit = "RevisionNotInSplit"
	// SameRevision: one Revision would be both canary and baseline. Name another one, or none.
	SameRevision = "SameRevision"
)

// Reasons why a run that has begun cannot be continued.
//
//reasons:table CanaryGate/Run
const (
	// EvidenceUnreadable: what the run has measured cannot be read. Change the split, which starts a new run.
	EvidenceUnreadable = "EvidenceUnreadable"
	// EvidenceTooLarge: the run has measured more than can be stored. Use fewer pods or shards.
	EvidenceTooLarge = "EvidenceTooLarge"
	// InternalError: judging the run met a bug. Report it, with the controller's log.
	InternalError = "InternalError"
)

// ProblemError is why a run cannot start or continue.
type ProblemError struct {
	Reason, Message string
	// Stack is where it panicked, with InternalError.
	Stack string
}

func (p *ProblemError) Error() string { return p.Message }

func problem(reason, format string, args ...any) *ProblemError {
	return &ProblemError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Pair is the two Revisions that a run compares.
type Pair struct{ Canary, Baseline lifecycle.Revision }

// Choose returns the Revisions to compare, among those with traffic: as canary the named
// one or the latest; as baseline the named one or, of the others, the one with the most
// traffic. name is the Service's, for messages.
func Choose(name string, s *Service, canary, baseline string) (Pair, *ProblemError) {
	switch {
	case s == nil:
		return Pair{}, problem(ServiceNotFound, "Knative Service %q does not exist in this namespace", name)
	case !s.Effective:
		return Pair{}, problem(TrafficUnknown,
			"the traffic of Service %q is not known: its Route is not Ready for its latest spec", name)
	}
	with := s.receivers()
	for _, named := range []string{canary, baseline} {
		if named != "" && !slices.ContainsFunc(with, func(r lifecycle.Revision) bool { return r.Name == named }) {
			return Pair{}, problem(RevisionNotInSplit, "Revision %q gets no traffic of Service %q; the traffic goes to %s",
				named, name, describeSplit(s.Traffic))
		}
	}
	if len(with) < 2 {
		return Pair{}, problem(NoSplit,
			"there is nothing to compare: the traffic of Service %q goes to %s; give a second Revision a share", name,
			describeSplit(s.Traffic))
	}
	t := Pair{Canary: pick(with, canary, later)}
	if t.Canary.Name == baseline {
		return Pair{}, problem(SameRevision, "Revision %q would be both canary and baseline; specify another one, or none",
			baseline)
	}
	others := slices.DeleteFunc(with, func(r lifecycle.Revision) bool { return r.UID == t.Canary.UID })
	t.Baseline = pick(others, baseline, func(a, b lifecycle.Revision) bool {
		x, y := s.Traffic.Percent(a.Name), s.Traffic.Percent(b.Name)
		return x > y || x == y && later(a, b)
	})
	return t, nil
}

// Reasons why a run was superseded.
//
//reasons:table CanaryGate/Run
const (
	// ServiceGone: the Service was deleted during the run.
	ServiceGone = "ServiceGone"
	// RevisionGone: the canary or the baseline was deleted during the run.
	RevisionGone = "RevisionGone"
	// SplitChanged: the traffic was split in another way during the run. The next run judges the new split.
	SplitChanged = "SplitChanged"
	// GateChanged: the gate names another Service than when the run began.
	GateChanged = "GateChanged"
)

// pick returns the named Revision, or the first by the given order.
func pick(all []lifecycle.Revision, named string, before func(a, b lifecycle.Revision) bool) lifecycle.Revision {
	best := all[0]
	for _, r := range all {
		if r.Name == named {
			return r
		}
		if before(r, best) {
			best = r
		}
	}
	return best
}

func later(a, b lifecycle.Revision) bool { return a.Generation > b.Generation }

// describeSplit formats a split for messages.
func describeSplit(split lifecycle.Split) string {
	if len(split) == 0 {
		return "no Revision"
	}
	parts := make([]string, 0, len(split))
	for _, share := range split {
		parts = append(parts, fmt.Sprintf("%s (%d %%)", share.Revision, share.Percent))
	}
	return strings.Join(parts, ", ")
}

// SplitOf returns the split that a run judges.
func SplitOf(run *v1alpha1.GateRun) lifecycle.Split {
	shares := make([]lifecycle.Share, 0, len(run.Split))
	for _, share := range run.Split {
		shares = append(shares, lifecycle.Share(share))
	}
	return lifecycle.NewSplit(shares)
}

// Shares returns a split for the status of a run.
func Shares(split lifecycle.Split) []v1alpha1.GateShare {
	out := make([]v1alpha1.GateShare, 0, len(split))
	for _, share := range split {
		out = append(out, v1alpha1.GateShare(share))
	}
	return out
}

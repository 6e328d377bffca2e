// SPDX-License-Identifier: Apache-2.0

package gaterun

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Reasons why a run cannot start, or ends without a judgement. They are values of a
// metric label, so there must be few.
const (
	ServiceNotFound    = "ServiceNotFound"
	TrafficUnknown     = "TrafficUnknown"
	NoSplit            = "NoSplit"
	RevisionNotInSplit = "RevisionNotInSplit"
	SameRevision       = "SameRevision"
	EvidenceUnreadable = "EvidenceUnreadable"
	EvidenceTooLarge   = "EvidenceTooLarge"
	// InternalError: a step of the run panicked, which is a bug.
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

// Target is the pair of Revisions that a run compares.
type Target struct{ Canary, Baseline Revision }

// Choose returns the Revisions to compare, among those with traffic: as canary the named
// one or the latest; as baseline the named one or, of the others, the one with the most
// traffic. name is the Service's, for messages.
func Choose(name string, s *Service, canary, baseline string) (Target, *ProblemError) {
	switch {
	case s == nil:
		return Target{}, problem(ServiceNotFound, "Knative Service %q does not exist in this namespace", name)
	case !s.Effective:
		return Target{}, problem(TrafficUnknown,
			"the traffic of Service %q is not known: its Route is not Ready for its latest spec", name)
	}
	with := slices.DeleteFunc(slices.Clone(s.Revisions), func(r Revision) bool { return r.Percent <= 0 })
	for _, named := range []string{canary, baseline} {
		if named != "" && !slices.ContainsFunc(with, func(r Revision) bool { return r.Name == named }) {
			return Target{}, problem(RevisionNotInSplit, "Revision %q gets no traffic of Service %q; the traffic goes to %s",
				named, name, describeSplit(s.Split()))
		}
	}
	if len(with) < 2 {
		return Target{}, problem(NoSplit,
			"there is nothing to compare: the traffic of Service %q goes to %s; give a second Revision a share", name,
			describeSplit(s.Split()))
	}
	t := Target{Canary: pick(with, canary, later)}
	if t.Canary.Name == baseline {
		return Target{}, problem(SameRevision, "Revision %q would be both canary and baseline; specify another one, or none",
			baseline)
	}
	others := slices.DeleteFunc(with, func(r Revision) bool { return r.UID == t.Canary.UID })
	t.Baseline = pick(others, baseline, larger)
	return t, nil
}

// Reasons why a run was superseded.
const (
	ServiceGone  = "ServiceGone"
	RevisionGone = "RevisionGone"
	SplitChanged = "SplitChanged"
	GateChanged  = "GateChanged"
)

// pick returns the named Revision, or the first by the given order.
func pick(all []Revision, named string, before func(a, b Revision) bool) Revision {
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

func later(a, b Revision) bool { return a.Generation > b.Generation }

func larger(a, b Revision) bool {
	return a.Percent > b.Percent || a.Percent == b.Percent && later(a, b)
}

// describeSplit formats a split for messages.
func describeSplit(split map[string]int64) string {
	if len(split) == 0 {
		return "no Revision"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(split)) {
		parts = append(parts, fmt.Sprintf("%s (%d %%)", name, split[name]))
	}
	return strings.Join(parts, ", ")
}

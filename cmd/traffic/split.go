// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
)

// shares are percentages by Revision, without zeros.
type shares map[string]int64

func (s shares) String() string {
	var parts []string
	for _, revision := range slices.Sorted(maps.Keys(s)) {
		parts = append(parts, fmt.Sprintf("%s=%d", revision, s[revision]))
	}
	return strings.Join(parts, ",")
}

var errUnpinned = errors.New("spec.traffic follows the latest Ready Revision (latestRevision: true), " +
	"so a canary gets all traffic before it can be judged: set revisionName to the Revision that should get the traffic")

// pinned sums the percentages by Revision. A target that follows the latest Revision is
// allowed only if it has no traffic, just a tag.
func pinned(targets []servingv1.TrafficTarget) (shares, error) {
	sum := shares{}
	for _, t := range targets {
		percent := percentOf(t)
		if percent == 0 {
			continue
		}
		if t.RevisionName == "" {
			return nil, errUnpinned
		}
		sum[t.RevisionName] += percent
	}
	if len(sum) == 0 { // Serving's default
		return nil, errUnpinned
	}
	return sum, nil
}

func percentOf(t servingv1.TrafficTarget) int64 {
	if t.Percent == nil {
		return 0
	}
	return *t.Percent
}

// plan is the change from the current traffic.
type plan struct {
	baseline string
	now      shares
	// want is the split that must take effect on the Route.
	want shares
	// targets is the new spec.traffic; nil if no write is needed.
	targets []servingv1.TrafficTarget
}

// plan plans the change from the Service's current traffic. Pure.
func (r request) plan(targets []servingv1.TrafficTarget) (plan, error) {
	now, err := pinned(targets)
	if err != nil {
		return plan{}, err
	}
	p := plan{baseline: r.baseline, now: now, want: now}
	if p.baseline == "" {
		if p.baseline, err = r.holder(now); err != nil {
			return plan{}, err
		}
	}
	wanted := shares{}
	for revision, percent := range map[string]int64{r.canary: r.percent, p.baseline: 100 - r.percent} {
		if percent > 0 {
			wanted[revision] = percent
		}
	}
	switch {
	case maps.Equal(now, wanted):
		return p, nil // also when the response to an earlier write was lost
	case r.percent == 0 && now[r.canary] == 0:
		return p, nil // nothing to roll back, whichever Revisions have the traffic
	case !r.allows(now[r.canary]):
		return plan{}, fmt.Errorf(
			"the traffic is %s: %s has %d %%, but this change is only allowed if it has one of %d: someone else has changed the traffic",
			now,
			r.canary,
			now[r.canary],
			r.from,
		)
	}
	for revision := range now {
		if revision != r.canary && revision != p.baseline {
			return plan{}, fmt.Errorf(
				"the traffic is %s: %s is neither the canary %s nor the baseline %s, so another rollout may be in progress",
				now,
				revision,
				r.canary,
				p.baseline,
			)
		}
	}
	p.want, p.targets = wanted, retarget(targets, wanted)
	return p, nil
}

// holder returns the Revision that has all traffic.
func (r request) holder(now shares) (string, error) {
	for revision, percent := range now {
		switch {
		case percent != 100:
			return "", fmt.Errorf(
				"the traffic is %s: no Revision has all of it, so another rollout is in progress; wait for it, or specify the baseline",
				now,
			)
		case revision == r.canary:
			return "", fmt.Errorf("the canary %s has all traffic already: there is nothing to compare it with", r.canary)
		default:
			return revision, nil
		}
	}
	return "", errUnpinned
}

// retarget changes the shares of existing targets, which keeps tags and their URLs, and
// adds targets for Revisions that have none.
func retarget(targets []servingv1.TrafficTarget, want shares) []servingv1.TrafficTarget {
	left := maps.Clone(want)
	var next []servingv1.TrafficTarget
	for _, t := range targets {
		percent := left[t.RevisionName]
		delete(left, t.RevisionName)
		switch {
		case percent > 0:
			t.Percent = &percent
		case t.Tag != "":
			t.Percent = nil
		default:
			continue
		}
		t.URL = nil // set in status only
		next = append(next, t)
	}
	for _, revision := range slices.Sorted(maps.Keys(left)) {
		percent, latest := left[revision], false
		next = append(next, servingv1.TrafficTarget{RevisionName: revision, LatestRevision: &latest, Percent: &percent})
	}
	return next
}

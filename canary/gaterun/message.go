// SPDX-License-Identifier: Apache-2.0

package gaterun

import (
	"fmt"
	"slices"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/api/plural"
	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// maxMessage limits the message of a run, in bytes. With the ellipsis that is 1 KiB.
const maxMessage = 1021

func (r *Run) setMessage(format string, args ...any) {
	r.GateRun.Message = sanitize.Truncate(fmt.Sprintf(format, args...), maxMessage)
}

// progress says what the run waits for, and how much is missing.
func (r *Run) progress(j verdict.Judgement) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Judging %s against %s: ", r.GateRun.Canary.Name, r.GateRun.Baseline.Name)
	if j.Message != "" {
		b.WriteString(j.Message)
	} else {
		b.WriteString(numbers(j))
	}
	if r.evidence != nil && r.evidence.Lacking != "" {
		b.WriteString("; the handled requests are not known for certain: " + r.evidence.Lacking)
		if r.evidence.Seen != "" {
			b.WriteString(" (" + r.evidence.Seen + ")")
		}
	}
	if r.evidence != nil && r.evidence.QueryLacks != "" {
		b.WriteString("; " + r.evidence.QuerySays)
	}
	if r.evidence != nil && r.evidence.LostPods > 0 {
		fmt.Fprintf(&b,
			"; the last requests of %s before the next scrape",
			plural.Of(r.evidence.LostPods, "pod are not known, because it was gone", "pods are not known, because they were gone"))
	}
	return b.String()
}

// numbers says how many requests there are, and how many more are needed at least.
func numbers(j verdict.Judgement) string {
	say := fmt.Sprintf("%d and %d requests", j.Canary.Requests, j.Baseline.Requests)
	var missing []string
	for _, n := range []struct {
		count     int64
		one, more string
	}{
		{j.Canary.Missing, "request of the canary", "requests of the canary"},
		{j.Baseline.Missing, "request of the baseline", "requests of the baseline"},
		{j.Canary.ShardsMissing, "shard of the canary", "shards of the canary"},
		{j.Baseline.ShardsMissing, "shard of the baseline", "shards of the baseline"},
	} {
		if n.count > 0 {
			missing = append(missing, plural.Of(n.count, n.one, n.more))
		}
	}
	if len(missing) > 0 {
		say += "; still needed, at least: " + strings.Join(missing, ", ")
	}
	return say
}

// explain tells a person why shards are misplaced.
func (m Misplacement) explain() string {
	switch m.Reason {
	case PlacementUnknown:
		return "where the shards are is not known yet"
	case PlacementPlanMissing:
		return "there is no plan for this split yet"
	case ShardsMisplaced:
		return plural.Of(m.Shards, "shard is not where the plan wants it", "shards are not where the plan wants them")
	}
	return string(m.Reason)
}

func reasons(j verdict.Judgement) []string {
	var out []string
	for _, r := range j.Reasons {
		out = append(out, string(r))
	}
	return out
}

func distinct(all []string) []string {
	var out []string
	for _, s := range all {
		if s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

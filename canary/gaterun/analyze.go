// SPDX-License-Identifier: Apache-2.0

package gaterun

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
)

// gather takes the current counts as the start of the evidence.
func (r *Run) gather(m Moment) {
	from, ok := m.Counts.Snapshot(r.service())
	figures, too := m.Counts.Figure(r.service())
	if !ok || !too {
		r.setMessage("Waiting until the pods of Service %q are scraped", r.GateRun.Service.Name)
		return
	}
	// A scrape from before the run would attribute earlier requests to the run.
	if waited := m.Now.Sub(r.GateRun.StartTime.Time); waited < settleTimeout && !r.scrapedWithin(figures, waited) {
		r.setMessage("Waiting until the pods of Service %q are scraped again", r.GateRun.Service.Name)
		return
	}
	if !r.inPlace(m, figures) {
		return
	}
	e := &evidence{At: m.Now, From: from, Overdue: overdue(figures, from)}
	for _, uid := range []types.UID{r.GateRun.Canary.UID, r.GateRun.Baseline.UID} {
		revision, _ := m.Service.Revision(uid)
		e.Sharded = e.Sharded || revision.Stateful != ""
	}
	if r.GateRun.Effective != nil {
		r.GateRun.Effective.Metrics = judged(r.Spec, e.Sharded)
	}
	var known map[string]judge.Counts
	if e.Sharded {
		known = before(from.Before(r.GateRun.Canary.UID))
	}
	e.Run = judge.Start(m.Now, known)
	e.Run.Remember(past(from.Past(r.GateRun.Baseline.UID)))
	e.Run.RecallRestarts(from.Lived(r.GateRun.Baseline.UID))
	e.Run.Recall(level(from.Level(r.GateRun.Baseline.UID, r.GateRun.Canary.UID)))
	r.evidence, r.GateRun.WaitingSince, r.GateRun.PlacedSince = e, nil, nil
	r.report(e.Run.Last)
	r.setMessage("Judging %s against %s: no requests have been counted yet", r.GateRun.Canary.Name,
		r.GateRun.Baseline.Name)
	r.save(m.Now)
}

// inPlace reports whether the cluster follows its plan and the pods were scraped since. Otherwise, requests from before
// the last move would count: the baseline handled the canary's. It also holds when the run has waited for long enough.
func (r *Run) inPlace(m Moment, f attribution.Figures) bool {
	switch {
	case m.Service.Misplaced.Reason != "":
		r.GateRun.PlacedSince = nil
		return !r.waitForShards(m.Now, m.Service.Misplaced)
	case r.GateRun.WaitingSince == nil:
		return true
	case r.GateRun.PlacedSince == nil:
		at := metav1.NewMicroTime(m.Now)
		r.GateRun.PlacedSince = &at
	}
	waited := m.Now.Sub(r.GateRun.PlacedSince.Time)
	if waited >= settleTimeout || r.scrapedWithin(f, waited) {
		return true
	}
	r.setMessage("Waiting until the pods of Service %q are scraped again, because shards have moved",
		r.GateRun.Service.Name)
	return false
}

// waitForShards reports whether the run still waits until the cluster follows its plan. The first call begins the wait.
func (r *Run) waitForShards(now time.Time, why Misplacement) bool {
	if r.GateRun.WaitingSince == nil {
		at := toSeconds(now)
		r.GateRun.WaitingSince = &at
	}
	since := r.GateRun.WaitingSince.Time
	limit := r.longestWaitForShards(since)
	if now.Sub(since) >= limit {
		return false
	}
	r.setMessage("Waiting until the canary can handle its share: %s (at most %s)", why.explain(), limit)
	return true
}

// longestWaitForShards is how long this run may wait from a time on. It leaves the time that a run needs to pass.
func (r *Run) longestWaitForShards(since time.Time) time.Duration {
	left, schedule := r.GateRun.Deadline.Sub(since), r.Spec.Schedule
	needed := duration(schedule.Warmup) + duration(schedule.MinDuration) + r.Interval()
	return max(0, min(placementTimeout, left/2, left-needed))
}

// scrapedWithin reports whether all pods of both Revisions were scraped in that time.
func (r *Run) scrapedWithin(f attribution.Figures, limit time.Duration) bool {
	for _, revision := range f.Revisions {
		ours := revision.UID == r.GateRun.Canary.UID || revision.UID == r.GateRun.Baseline.UID
		if ours && revision.ScrapeAge != nil && *revision.ScrapeAge > limit {
			return false
		}
	}
	return true
}

// overdue returns the overdue requests by Revision: started, not finished within the timeout, and their
// process still runs. If the process has ended, they are Lost.
func overdue(f attribution.Figures, now attribution.Snapshot) map[types.UID]float64 {
	out := map[types.UID]float64{}
	for _, r := range f.Revisions {
		if r.Unaccounted != nil {
			out[r.UID] = max(0, *r.Unaccounted-now.Revisions()[r.UID].Lost)
		}
	}
	return out
}

// analyze evaluates what happened since the last analysis. If nothing did and the
// judgement stays the same, it leaves the run unchanged, so no write is needed.
func (r *Run) analyze(m Moment) {
	plan := r.plan()
	if plan.Deadline <= plan.Warmup {
		r.End(m.Now, verdict.Inconclusive,
			fmt.Sprintf("Too late to judge: the deadline came %s after the first scrape, and the warm-up takes %s",
				plan.Deadline, plan.Warmup), string(verdict.Timeout))
		return
	}
	delta, ok := m.Counts.Since(r.service(), r.evidence.From)
	figures, too := m.Counts.Figure(r.service())
	if !ok || !too {
		r.setMessage("Waiting until the pods of Service %q are scraped again", r.GateRun.Service.Name)
		return
	}
	b := windowBuilder{service: m.Service, delta: delta, figures: figures, from: r.evidence.At, warmup: plan.Warmup}
	most := r.newlyOverdue(&b)
	w := b.window(r.GateRun.Canary.UID, r.GateRun.Baseline.UID)
	w.To = m.Now
	asked := r.read(m, &w)
	previous := r.Last()
	j := m.Analyze(r.evidence.Run, plan, w)
	lacking := lacking(w, r.evidence.Lacking)
	if empty(w, delta) && asked.same(r.evidence) && lacking == r.evidence.Lacking && j.Verdict == verdict.Running &&
		equal(j, previous) {
		r.Quiet = m.Now
		r.setMessage("%s", r.progress(previous))
		return
	}
	r.report(j)
	r.keep(b, w)
	r.evidence.At, r.evidence.From, r.evidence.Overdue = m.Now, delta.To, most
	r.evidence.LostPods += delta.LostPods
	r.evidence.Lacking, r.evidence.Seen = lacking, b.seen(lacking)
	r.evidence.Queries, r.evidence.QueryLacks, r.evidence.QuerySays = asked.now, asked.reason, asked.detail
	r.conclude(m.Now, j)
}

// newlyOverdue fills in the requests that became overdue since the last analysis, and
// returns the most that each Revision ever had.
func (r *Run) newlyOverdue(b *windowBuilder) map[types.UID]float64 {
	b.overdue = map[types.UID]float64{}
	most := maps.Clone(r.evidence.Overdue)
	if most == nil {
		most = map[types.UID]float64{}
	}
	for uid, n := range overdue(b.figures, b.delta.To) {
		if b.overdue[uid] = max(0, n-most[uid]); n > most[uid] {
			most[uid] = n
		}
	}
	return most
}

// conclude continues or ends the run, as the judgement says.
func (r *Run) conclude(now time.Time, j verdict.Judgement) {
	switch j.Verdict {
	case verdict.Running:
		r.setMessage("%s", r.progress(j))
		r.GateRun.Reasons = distinct(append([]string{r.evidence.QueryLacks}, reasons(j)...))
		r.save(now)
	case verdict.Inconclusive:
		r.End(now, j.Verdict, r.progress(j), r.undecided(j)...)
	default:
		r.End(now, j.Verdict, cmp.Or(j.Message, r.progress(j)), reasons(j)...)
	}
}

// plan returns a plan whose deadline counts from the start of the evidence.
func (r *Run) plan() judge.Plan {
	return Plan(r.Spec, r.evidence.Sharded, r.GateRun.Deadline.Sub(r.evidence.Run.Start))
}

// empty reports whether nothing happened in a window.
func empty(w judge.Window, d attribution.Delta) bool {
	for _, a := range []judge.Arm{w.Canary, w.Baseline} {
		if a.Finished+a.Entered+a.Started+a.Unaccounted+a.Restarts > 0 {
			return false
		}
	}
	return len(w.Shards) == 0 && d.LostPods == 0
}

func equal(a, b verdict.Judgement) bool {
	return a.Verdict == b.Verdict && a.Message == b.Message && slices.Equal(a.Reasons, b.Reasons)
}

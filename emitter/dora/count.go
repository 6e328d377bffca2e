// SPDX-License-Identifier: Apache-2.0

// Package dora counts what DORA's metrics of software delivery are made of (https://dora.dev/guides/dora-metrics/):
// deployments, changes that fail, the lead time of changes, and the time to restore service.
//
// Its invariant: Count is pure. The ledger stores the counts in the write that journals a transition, so a restart or
// another leader counts no transition twice and misses none.
package dora

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// The annotations with which a pipeline says when the work on a change began, as times of RFC 3339. They may be set on
// the Service or, better, on its template. Events do not show them.
const (
	AnnotationCommitTime = "cdevents.knative-cdevents.dev/commit-time"
	// AnnotationPipelineStarted counts if there is no time of the commit.
	AnnotationPipelineStarted = "cdevents.knative-cdevents.dev/pipeline-started"
)

const (
	// blamed is how long after a deployment an outage that begins counts as its failure.
	blamed = time.Hour
	// maxRecent bounds the deployments that may still fail. The last one is the primary.
	maxRecent = 8
	// maxSkew is how far the clock of a pipeline may be ahead of ours.
	maxSkew = 5 * time.Minute
)

// The upper bounds of the buckets. Stored counts belong to them by position: add further ones at the end only.
var (
	// LeadTimeBuckets reach from minutes to a quarter of a year.
	LeadTimeBuckets = []time.Duration{
		5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour,
		day, 2 * day, 4 * day, week, 2 * week, 4 * week, 13 * week,
	}
	// RestoreBuckets reach from a minute to a week.
	RestoreBuckets = []time.Duration{
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, day, 2 * day, week,
	}
)

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// Count adds a transition of a Service. It does not change p, which is nil if nothing was counted yet, and returns it
// if there is nothing to count.
func Count(p *v1alpha1.Performance, t lifecycle.Transition) *v1alpha1.Performance {
	if t.Reason == lifecycle.ReasonReplay || t.Environment != nil {
		return p // nothing happened, or it is not software that is delivered
	}
	c := counting{now: t}
	if p != nil {
		c.p = *p.DeepCopy()
	}
	switch t.Type {
	case lifecycle.Deployed, lifecycle.Upgraded:
		c.deployed()
	case lifecycle.RolledBack:
		c.rolledBack()
	case lifecycle.IncidentDetected:
		c.detected()
	case lifecycle.IncidentResolved:
		c.resolved()
	}
	if !c.changed {
		return p
	}
	return &c.p
}

type counting struct {
	p       v1alpha1.Performance
	now     lifecycle.Transition
	changed bool
}

// deployed counts a Revision that has all traffic.
func (c *counting) deployed() {
	if c.now.Revision == nil {
		return
	}
	c.changed = true
	c.p.Deployments++
	name := c.now.Revision.Name
	// A Revision that comes back is deployed again, but it is no new change.
	if i := c.recent(name); i >= 0 {
		c.p.Recent = slices.Delete(c.p.Recent, i, i+1)
	} else if began, known := began(c.now); known {
		c.p.LeadTime = observe(c.p.LeadTime, LeadTimeBuckets, c.now.Time.Sub(began))
	}
	c.p.Recent = append(c.p.Recent, v1alpha1.RecentDeployment{Revision: name, Time: metav1.NewMicroTime(c.now.Time)})
	c.p.Recent = slices.Clone(c.p.Recent[max(0, len(c.p.Recent)-maxRecent):])
}

// began returns when the work on a change began, as far as its pipeline says so.
func began(t lifecycle.Transition) (time.Time, bool) {
	for _, name := range []string{AnnotationCommitTime, AnnotationPipelineStarted} {
		for _, all := range []map[string]string{t.Revision.Annotations, t.Annotations} {
			if at, ok := ParseTime(all[name]); ok && WrongTime(all[name], t.Time) == "" {
				return at, true
			}
		}
	}
	return time.Time{}, false
}

// ParseTime reads the time in an annotation. The epoch of Unix, and all before it, stand for a time that is not
// known: builds that are to be reproducible write the one, and programs that have no time often the first second of
// the year 1.
func ParseTime(value string) (time.Time, bool) {
	at, err := parse(value)
	return at, err == nil && at.Unix() > 0
}

func parse(value string) (time.Time, error) {
	return time.Parse(time.RFC3339, strings.TrimSpace(value))
}

// WrongTime says what is wrong with the time in an annotation of what arrived at another time; nothing if it counts, or
// stands for a time that is not known.
func WrongTime(value string, arrived time.Time) string {
	at, err := parse(value)
	switch {
	case err != nil:
		return "is not in RFC 3339, as git's %cI is"
	case at.After(arrived.Add(maxSkew)):
		return "is in the future"
	}
	return ""
}

// rolledBack counts the failure of what was rolled back.
func (c *counting) rolledBack() {
	if c.now.Previous == nil {
		return
	}
	if c.now.Reason == lifecycle.ReasonWithdrawn || c.now.Reason == lifecycle.ReasonReverted {
		c.changed = true
		c.p.Stopped++
		c.restored(c.arrived())
		c.continued()
		return
	}
	// What was there before the controller was not counted as a deployment, so its failure is not counted either.
	if i := c.recent(c.now.Previous.Name); i >= 0 && !c.p.Recent[i].Failed {
		c.fail(i)
		c.restored(c.arrived())
	}
}

// continued has a Revision that a revert made stand for the one that it equals: it may still fail.
func (c *counting) continued() {
	n := len(c.p.Recent)
	if n == 0 || c.now.Reason != lifecycle.ReasonReverted || c.now.Revision == nil {
		return
	}
	c.p.Recent[n-1].Revision = c.now.Revision.Name
}

// arrived returns since when the Revision that was rolled back had traffic.
func (c *counting) arrived() time.Time {
	for _, l := range c.now.Links {
		if l.Kind == lifecycle.LinkUndoes {
			return l.Time
		}
	}
	return time.Time{}
}

// detected counts a failure of the last deployment if an outage began soon after it.
func (c *counting) detected() {
	n := len(c.p.Recent)
	if !impairs(c.now.Incident) || n == 0 || c.p.Recent[n-1].Failed {
		return
	}
	if c.now.Incident.Since.Sub(c.p.Recent[n-1].Time.Time) <= blamed {
		c.fail(n - 1)
	}
}

// resolved measures an outage that is over. One that ended with its Service was not restored.
func (c *counting) resolved() {
	if impairs(c.now.Incident) && c.now.Reason != lifecycle.ReasonRemoved {
		c.restored(c.now.Incident.Since)
	}
}

// impairs reports whether users feel an incident. While a new Revision does not become ready, the one before serves,
// and a Service that is not deployed has no users.
func impairs(i *lifecycle.IncidentDetails) bool {
	return i != nil && i.Kind != lifecycle.FailedRollout && i.Kind != lifecycle.NotDeployed
}

func (c *counting) fail(i int) {
	c.changed = true
	c.p.Recent[i].Failed = true
	c.p.Failures++
}

func (c *counting) restored(since time.Time) {
	if since.IsZero() {
		return
	}
	c.changed = true
	c.p.Restore = observe(c.p.Restore, RestoreBuckets, c.now.Time.Sub(since))
}

// recent returns the position of a Revision among the recent deployments, -1 if it is not one.
func (c *counting) recent(revision string) int {
	return slices.IndexFunc(c.p.Recent, func(r v1alpha1.RecentDeployment) bool { return r.Revision == revision })
}

// observe adds a duration to a histogram. The last bucket has no upper bound.
func observe(d *v1alpha1.DurationCounts, buckets []time.Duration, took time.Duration) *v1alpha1.DurationCounts {
	if d == nil {
		d = &v1alpha1.DurationCounts{}
	}
	took = max(took, 0)
	i, _ := slices.BinarySearch(buckets, took)
	for len(d.Counts) <= i {
		d.Counts = append(d.Counts, 0)
	}
	d.Counts[i]++
	d.Milliseconds += took.Milliseconds()
	return d
}

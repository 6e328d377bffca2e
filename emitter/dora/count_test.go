// SPDX-License-Identifier: Apache-2.0

package dora

import (
	"slices"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return noon.Add(d) }

func revision(name string, annotations ...string) *lifecycle.Revision {
	r := &lifecycle.Revision{Name: name, Annotations: map[string]string{}}
	for pair := range slices.Chunk(annotations, 2) {
		r.Annotations[pair[0]] = pair[1]
	}
	return r
}

func moved(kind lifecycle.Type, at time.Duration, to, from *lifecycle.Revision) lifecycle.Transition {
	return lifecycle.Transition{Type: kind, Time: after(at), Revision: to, Previous: from}
}

// undone is a rollback from a Revision that had traffic since a time.
func undone(reason string, at time.Duration, to, from *lifecycle.Revision, since time.Duration) lifecycle.Transition {
	t := moved(lifecycle.RolledBack, at, to, from)
	t.Reason = reason
	t.Links = []lifecycle.Link{{Kind: lifecycle.LinkPath, Time: noon}, {Kind: lifecycle.LinkUndoes, Time: after(since)}}
	return t
}

func incident(kind lifecycle.Type, at time.Duration, of lifecycle.Incident, since time.Duration,
	reason string,
) lifecycle.Transition {
	return lifecycle.Transition{
		Type: kind, Time: after(at), Reason: reason,
		Incident: &lifecycle.IncidentDetails{Kind: of, Since: after(since)},
	}
}

// TestDefinitions has one story for each sentence of DORA's guide, and for what it leaves open.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	one, two, three := revision("cart-1"), revision("cart-2"), revision("cart-3")
	first := moved(lifecycle.Deployed, 0, one, nil)
	second := moved(lifecycle.Upgraded, time.Hour, two, one)
	for _, c := range []struct {
		name                           string
		story                          []lifecycle.Transition
		deployments, stopped, failures int64
		restored                       []time.Duration
	}{
		{name: "a first deployment", story: []lifecycle.Transition{first}, deployments: 1},
		{name: "an upgrade", story: []lifecycle.Transition{first, second}, deployments: 2},
		{
			name: "a canary that got all traffic in steps is one deployment", deployments: 2,
			story: []lifecycle.Transition{
				first, moved(lifecycle.TrafficShifted, 30*time.Minute, two, one),
				moved(lifecycle.TrafficShifted, 40*time.Minute, two, one), second,
			},
		},
		{
			name: "a change that never had traffic and is reverted", deployments: 1, stopped: 1,
			story: []lifecycle.Transition{first, {
				Type: lifecycle.RolledBack, Reason: lifecycle.ReasonReverted,
				Time: after(time.Hour), Revision: three, Previous: two,
			}},
		},
		{
			name: "the Revision of a revert fails", deployments: 1, stopped: 1, failures: 1,
			restored: []time.Duration{time.Minute},
			story: []lifecycle.Transition{
				first,
				{
					Type: lifecycle.RolledBack, Reason: lifecycle.ReasonReverted, Time: after(time.Hour), Revision: three,
					Previous: two,
				},
				undone(lifecycle.ReasonTraffic, 61*time.Minute, one, three, time.Hour),
			},
		},
		{
			name: "a new Service that does not become ready", deployments: 1,
			story: []lifecycle.Transition{
				incident(lifecycle.IncidentDetected, -time.Minute, lifecycle.NotDeployed, -time.Hour, ""), first,
				incident(lifecycle.IncidentResolved, time.Second, lifecycle.NotDeployed, -time.Hour, ""),
			},
		},
		{
			name: "a canary that is stopped at 10 %", deployments: 1, stopped: 1, restored: []time.Duration{15 * time.Minute},
			story: []lifecycle.Transition{
				first, moved(lifecycle.TrafficShifted, 30*time.Minute, two, one),
				undone(lifecycle.ReasonWithdrawn, 45*time.Minute, one, two, 30*time.Minute),
			},
		},
		{
			name: "a canary that a newer one replaces never failed", deployments: 2,
			story: []lifecycle.Transition{
				first, moved(lifecycle.TrafficShifted, 30*time.Minute, two, one),
				{Type: lifecycle.TrafficShifted, Reason: lifecycle.ReasonReplaced, Revision: three, Previous: one},
				moved(lifecycle.Upgraded, time.Hour, three, one),
			},
		},
		{
			name: "a rollback is no deployment", deployments: 2, failures: 1, restored: []time.Duration{20 * time.Minute},
			story: []lifecycle.Transition{first, second, undone(lifecycle.ReasonTraffic, 80*time.Minute, one, two, time.Hour)},
		},
		{
			name: "a commit that is reverted", deployments: 2, failures: 1, restored: []time.Duration{20 * time.Minute},
			story: []lifecycle.Transition{
				first, second,
				undone(lifecycle.ReasonReapplied, 80*time.Minute, three, two, time.Hour),
			},
		},
		{
			name: "two rollbacks in a row", deployments: 3, failures: 2, restored: []time.Duration{time.Hour, 3 * time.Hour},
			story: []lifecycle.Transition{
				first, second, moved(lifecycle.Upgraded, 2*time.Hour, three, two),
				undone(lifecycle.ReasonTraffic, 3*time.Hour, two, three, 2*time.Hour),
				undone(lifecycle.ReasonTraffic, 4*time.Hour, one, two, time.Hour),
			},
		},
		{
			name: "deployed again after a rollback, and rolled back again", deployments: 3, failures: 2,
			restored: []time.Duration{time.Hour, time.Hour},
			story: []lifecycle.Transition{
				first, second, undone(lifecycle.ReasonTraffic, 2*time.Hour, one, two, time.Hour),
				moved(lifecycle.Upgraded, 3*time.Hour, two, one),
				undone(lifecycle.ReasonTraffic, 4*time.Hour, one, two, 3*time.Hour),
			},
		},
		{
			name: "what was there before the controller", restored: nil,
			story: []lifecycle.Transition{undone(lifecycle.ReasonTraffic, time.Hour, one, two, 0)},
		},
		{
			name: "an outage soon after a deployment is its failure", deployments: 2, failures: 1,
			restored: []time.Duration{10 * time.Minute},
			story: []lifecycle.Transition{
				first, second,
				incident(lifecycle.IncidentDetected, 71*time.Minute, lifecycle.Outage, 70*time.Minute, ""),
				incident(lifecycle.IncidentResolved, 80*time.Minute, lifecycle.Outage, 70*time.Minute, ""),
			},
		},
		{
			name: "an outage that a rollback ends is one failure, measured once", deployments: 2, failures: 1,
			restored: []time.Duration{10 * time.Minute},
			story: []lifecycle.Transition{
				first, second, incident(lifecycle.IncidentDetected, 71*time.Minute, lifecycle.Outage, 70*time.Minute, ""),
				undone(lifecycle.ReasonTraffic, 79*time.Minute, one, two, time.Hour),
				incident(lifecycle.IncidentResolved, 80*time.Minute, lifecycle.Outage, 70*time.Minute, ""),
			},
		},
		{
			name: "an outage long after the last deployment", deployments: 1, restored: []time.Duration{time.Hour},
			story: []lifecycle.Transition{first, incident(lifecycle.IncidentDetected, 5*time.Hour, lifecycle.ClusterSplit,
				5*time.Hour, ""), incident(lifecycle.IncidentResolved, 6*time.Hour, lifecycle.ClusterSplit, 5*time.Hour, "")},
		},
		{
			name: "an outage that ends with its Service", deployments: 1, failures: 1,
			story: []lifecycle.Transition{
				first, incident(lifecycle.IncidentDetected, time.Minute, lifecycle.Outage, 0, ""),
				incident(lifecycle.IncidentResolved, time.Hour, lifecycle.Outage, 0, lifecycle.ReasonRemoved),
			},
		},
		{
			name: "a Revision that never becomes ready reached no user", deployments: 1,
			story: []lifecycle.Transition{first, incident(lifecycle.IncidentDetected, time.Minute, lifecycle.FailedRollout, 0,
				""), incident(lifecycle.IncidentResolved, time.Hour, lifecycle.FailedRollout, 0, "")},
		},
		{
			name: "a replay and an environment", deployments: 1,
			story: []lifecycle.Transition{
				first,
				{Type: lifecycle.Deployed, Reason: lifecycle.ReasonReplay, Revision: one},
				{
					Type: lifecycle.IncidentResolved, Environment: &lifecycle.EnvironmentDetails{},
					Incident: &lifecycle.IncidentDetails{Kind: lifecycle.EnvironmentOutage, Since: noon},
				},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got v1alpha1.Performance
			if p := tell(c.story); p != nil {
				got = *p
			}
			if got.Deployments != c.deployments || got.Stopped != c.stopped || got.Failures != c.failures {
				t.Errorf("%d deployments, %d stopped, %d failures; want %d, %d, %d", got.Deployments, got.Stopped, got.Failures,
					c.deployments, c.stopped, c.failures)
			}
			var want *v1alpha1.DurationCounts
			for _, d := range c.restored {
				want = observe(want, RestoreBuckets, d)
			}
			if !same(got.Restore, want) {
				t.Errorf("times to restore %+v, want %+v", got.Restore, want)
			}
		})
	}
}

func tell(story []lifecycle.Transition) *v1alpha1.Performance {
	var p *v1alpha1.Performance
	for _, tr := range story {
		p = Count(p, tr)
	}
	return p
}

func same(a, b *v1alpha1.DurationCounts) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Milliseconds == b.Milliseconds && slices.Equal(a.Counts, b.Counts)
}

func TestLeadTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, commit, started, service string
		want                           time.Duration
		unknown                        bool
	}{
		{name: "from the commit", commit: "2026-03-04T11:00:00Z", started: "2026-03-04T11:50:00Z", want: time.Hour},
		{name: "in another zone", commit: "2026-03-04T13:00:00+02:00", want: time.Hour},
		{name: "from the pipeline", started: "2026-03-04T11:50:00Z", want: 10 * time.Minute},
		{
			name: "from the pipeline if the commit has no valid time", commit: "yesterday", started: "2026-03-04T11:50:00Z",
			want: 10 * time.Minute,
		},
		{name: "of the Service", service: "2026-03-04T11:30:00Z", want: 30 * time.Minute},
		{name: "a clock that is ahead", commit: "2026-03-04T12:01:00Z", want: 0},
		{name: "the future", commit: "2026-03-05T12:00:00Z", unknown: true},
		{
			name: "the epoch of a reproducible build", commit: "1970-01-01T00:00:00Z", started: "2026-03-04T11:50:00Z",
			want: 10 * time.Minute,
		},
		{name: "no time", commit: "0001-01-01T00:00:00Z", started: "1970-01-01T01:00:00+01:00", unknown: true},
		{name: "not known", unknown: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tr := moved(lifecycle.Deployed, 0, revision("cart-1", AnnotationCommitTime, c.commit, AnnotationPipelineStarted,
				c.started), nil)
			tr.Annotations = map[string]string{AnnotationCommitTime: c.service}
			got := Count(nil, tr).LeadTime
			if c.unknown != (got == nil) || got != nil && got.Milliseconds != c.want.Milliseconds() {
				t.Errorf("%+v, want %s", got, c.want)
			}
		})
	}
}

// TestSameCommitAgain shows that a Revision that comes back is deployed, but has no lead time again.
func TestSameCommitAgain(t *testing.T) {
	t.Parallel()
	one, two := revision("cart-1"), revision("cart-2", AnnotationCommitTime, "2026-03-04T11:00:00Z")
	p := tell([]lifecycle.Transition{
		moved(lifecycle.Deployed, 0, one, nil), moved(lifecycle.Upgraded, time.Hour, two, one),
		undone(lifecycle.ReasonTraffic, 2*time.Hour, one, two, time.Hour), moved(lifecycle.Upgraded, 3*time.Hour, two, one),
	})
	if p.Deployments != 3 || p.LeadTime.Milliseconds != (2*time.Hour).Milliseconds() {
		t.Errorf("%+v, %+v", p, p.LeadTime)
	}
}

// TestCountChangesNothing shows that what is stored is never changed in place, and that few deployments are remembered.
func TestCountChangesNothing(t *testing.T) {
	t.Parallel()
	p := Count(nil, moved(lifecycle.Deployed, 0, revision("cart-0"), nil))
	before := p.DeepCopy()
	if Count(p, moved(lifecycle.RevisionReady, 0, revision("cart-1"), nil)) != p {
		t.Error("a Revision that is ready is nothing to count")
	}
	next := p
	for i := range 100 {
		next = Count(next, moved(lifecycle.Upgraded, time.Duration(i)*time.Minute, revision("cart-"+string(rune('a'+i))),
			revision("x")))
		next = Count(next, undone(lifecycle.ReasonWithdrawn, time.Hour, revision("x"), revision("y"), 0))
	}
	if len(next.Recent) != maxRecent || next.Deployments != 101 || next.Stopped != 100 {
		t.Errorf("%+v", next)
	}
	if len(p.Recent) != 1 || p.Deployments != before.Deployments || p.Restore != nil {
		t.Errorf("%+v became %+v", before, p)
	}
}

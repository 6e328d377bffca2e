// SPDX-License-Identifier: Apache-2.0

package gaterun

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

func counting(stateful bool, canary, baseline attribution.Tally) windowBuilder {
	runtime := map[bool]string{true: "pekko"}[stateful]
	return windowBuilder{
		service: &Service{
			Route: lifecycle.Route{Effective: true, Traffic: lifecycle.SplitOf(map[string]int64{"b": 80, "c": 10, "x": 10})},
			Revisions: map[string]*lifecycle.Revision{
				"b": {Name: "b", UID: "b", Stateful: runtime}, "c": {Name: "c", UID: "c", Stateful: runtime}, "x": {Name: "x", UID: "x", Stateful: runtime},
			},
		},
		delta: attribution.Delta{Revisions: map[types.UID]attribution.Tally{"c": canary, "b": baseline, "x": {
			Finished: map[string]float64{mapping.OK: 100}, Entered: map[string]float64{"200": 100},
		}}},
		overdue: map[types.UID]float64{},
	}
}

func buckets(half, all float64) map[float64]float64 {
	out := map[float64]float64{math.Inf(1): all}
	for _, b := range attribution.Bounds() {
		if out[b] = half; b > 0.5 {
			out[b] = all
		}
	}
	return out
}

func TestWindowOfStatefulRevisions(t *testing.T) {
	t.Parallel()
	c := counting(true, attribution.Tally{
		Started: 60, Lost: 2, Finished: map[string]float64{mapping.OK: 40, mapping.Error: 6, mapping.Timeout: 4}, Buckets: buckets(45, 50),
		Restarts: map[string]float64{attribution.RestartedOOM: 1, attribution.RestartedOther: 2},
		Entered:  map[string]float64{"500": 1000},
		Shards:   map[attribution.ShardKey]attribution.Shard{{Entity: "a/b", Shard: "7"}: {OK: 1, Error: 2, Timeout: 3, Slow: 4}, {Shard: "9"}: {}},
	}, attribution.Tally{
		Started: 50, Finished: map[string]float64{mapping.OK: 50}, Buckets: buckets(50, 50),
		Shards: map[attribution.ShardKey]attribution.Shard{{Entity: "a/b", Shard: "7"}: {OK: 5}},
	})
	c.overdue["c"] = 3
	c.figures.Revisions = []attribution.RevisionFigures{{Revision: attribution.Revision{Revision: &lifecycle.Revision{UID: "b"}}, Unanswering: 7}, {Revision: attribution.Revision{Revision: &lifecycle.Revision{UID: "c"}}, Unanswering: 2}}
	w := c.window("c", "b")
	if w.Unanswering != 2 {
		t.Errorf("%d pods of the canary do not answer", w.Unanswering)
	}
	if a := w.Canary; a.Finished != 50 || a.Errors != 10 || a.Above[.5] != 5 || a.Above[1] != 0 || a.Started != 60 || a.Unaccounted != 5 || a.Restarts != 3 || a.StartedUnknown {
		t.Errorf("canary: %+v", a)
	}
	if a := w.Canary; a.Entered != 1000 || a.EntryErrors != 1000 || a.EntryUnknown != "" {
		t.Errorf("what entered at the canary: %+v", a)
	}
	if a := w.Baseline; a.Finished != 50 || a.Errors != 0 || a.Unaccounted != 0 {
		t.Errorf("baseline: %+v", a)
	}
	want := map[string]judge.ShardWindow{"a%2Fb/7": {Canary: judge.Counts{Finished: 6, Errors: 5, Slow: 4}, Baseline: judge.Counts{Finished: 5}}}
	if diff := cmp.Diff(want, w.Shards); diff != "" {
		t.Error(diff)
	}
	if w.Required != .1 || w.Handled != .25 {
		t.Errorf("the Route gives %v, handled is %v", w.Required, w.Handled)
	}
	c.service.Effective = false
	if w := c.window("c", "b"); w.Required >= 0 {
		t.Errorf("a split that is not in force gives %v", w.Required)
	}
}

func TestWindowOfOrdinaryRevisions(t *testing.T) {
	t.Parallel()
	c := counting(false, attribution.Tally{
		Entered: map[string]float64{"200": 80, "404": 5, "500": 6, "504": 1, "101": 99}, Cut: 8, EntryBuckets: buckets(90, 92),
		Finished: map[string]float64{mapping.OK: 1000},
	}, attribution.Tally{})
	w := c.window("c", "b")
	if a := w.Canary; a.Finished != 100 || a.Errors != 15 || a.Above[.5] != 2 || !a.StartedUnknown || a.OutcomesUnknown != "" {
		t.Errorf("%+v", a)
	}
	if a := w.Baseline; a.Finished != 0 || a.DurationsUnknown != "" {
		t.Errorf("nothing came: %+v", a)
	}
}

func TestUnknownFiguresAreReported(t *testing.T) {
	t.Parallel()
	odd := buckets(1, 1)
	delete(odd, .25)
	for name, c := range map[string]struct {
		tally               attribution.Tally
		noData              attribution.Reason
		pods                int
		outcomes, durations string
	}{
		"gRPC":          {attribution.Tally{Entered: map[string]float64{mapping.Unknown: 1}, EntryBuckets: buckets(1, 1)}, "", 1, "OutcomesUnknown", ""},
		"no durations":  {attribution.Tally{Entered: map[string]float64{"200": 1}}, "", 1, "", "DurationsUnknown"},
		"few durations": {attribution.Tally{Entered: map[string]float64{"200": 100}, EntryBuckets: buckets(89, 89)}, "", 1, "", "DurationsUnknown"},
		"most of them":  {attribution.Tally{Entered: map[string]float64{"200": 100}, EntryBuckets: buckets(90, 90)}, "", 1, "", ""},
		// Serving up to v1.18 lacks some bounds and has others. A judgement by a missing bound reports
		// that.
		"a bucket less": {attribution.Tally{Entered: map[string]float64{"200": 1}, EntryBuckets: odd}, "", 1, "", ""},
		"metrics off":   {attribution.Tally{}, attribution.EntryMetricsUnavailable, 1, "EntryMetricsUnavailable", ""},
		"not read":      {attribution.Tally{}, attribution.NotRead, 1, "NotRead", ""},
		"no pod":        {attribution.Tally{}, attribution.NotRead, 0, "", ""},
	} {
		is := counting(false, c.tally, attribution.Tally{})
		is.figures.Revisions = []attribution.RevisionFigures{{Revision: attribution.Revision{Revision: &lifecycle.Revision{UID: "c"}}, Pods: c.pods}}
		if c.noData != "" {
			is.figures.NoData = []attribution.NoData{{Revision: "c", Figure: "handled_requests_total", Reason: c.noData}}
		}
		if a := is.arm("c"); a.OutcomesUnknown != c.outcomes || a.DurationsUnknown != c.durations {
			t.Errorf("%s: outcomes %q, durations %q", name, a.OutcomesUnknown, a.DurationsUnknown)
		}
	}
}

// A missing bound stays missing, so nothing can be judged by it.
func TestAMissingBucket(t *testing.T) {
	t.Parallel()
	odd := buckets(5, 8)
	delete(odd, .25)
	above, why := slower(odd, 8)
	if _, ok := above[.25]; ok || why != "" || above[.5] != 3 {
		t.Errorf("%v, %s", above, why)
	}
	is := counting(false, attribution.Tally{Entered: map[string]float64{"200": 8}, EntryBuckets: odd}, attribution.Tally{})
	is.figures.NoData = []attribution.NoData{{Revision: "c", Figure: "handled_request_duration_seconds", Reason: attribution.BucketsDiffer}}
	if a := is.arm("c"); a.DurationsUnknown != "" || a.Above[.5] != 3 {
		t.Errorf("%+v", a)
	}
}

// Rejected samples may leave a bucket below the one before it.
func TestBucketsAreMadeToRise(t *testing.T) {
	t.Parallel()
	all := buckets(5, 8)
	all[1] = 3
	above, why := slower(all, 8)
	if why != "" || above[1] != 3 || above[2.5] != 0 {
		t.Errorf("%v, %s", above, why)
	}
}

// The judge receives the history of shards by name.
func TestBefore(t *testing.T) {
	t.Parallel()
	got := before(map[attribution.ShardKey]attribution.Shard{
		{Entity: "a/b", Shard: "7"}: {OK: 3, Error: 1, Timeout: 1, Slow: 1}, {Shard: "8"}: {OK: 5},
	})
	want := map[string]judge.Counts{"a%2Fb/7": {Finished: 5, Errors: 2, Slow: 1}, "/8": {Finished: 5}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if before(nil) != nil {
		t.Error("something is known of nothing")
	}
}

// Open and overdue requests reach the judge, or the reason why they are unknown.
func TestOpenRequestsOfAWindow(t *testing.T) {
	t.Parallel()
	open := 4.0
	c := counting(true, attribution.Tally{Started: 60, Finished: map[string]float64{mapping.OK: 56}}, attribution.Tally{})
	c.figures.Revisions = []attribution.RevisionFigures{
		{Revision: attribution.Revision{Revision: &lifecycle.Revision{UID: "c"}, Timeout: time.Minute}, Open: &open, Pods: 1}, {Revision: attribution.Revision{Revision: &lifecycle.Revision{UID: "b"}}, Pods: 1},
	}
	c.figures.NoData = []attribution.NoData{{Revision: "c", Figure: "unaccounted_requests", Reason: attribution.WindowTooShort}}
	w := c.window("c", "b")
	if a := w.Canary; a.Open != 4 || a.OpenUnknown != "" || a.StartedUnknown || a.OverdueUnknown != "WindowTooShort" || w.RequestTimeout != time.Minute {
		t.Errorf("canary: %+v, time-out %s", a, w.RequestTimeout)
	}
	if a := w.Baseline; a.OpenUnknown == "" || a.StartedUnknown {
		t.Errorf("a pod of the baseline was not read: %+v", a)
	}
	c.figures.NoData = []attribution.NoData{{Revision: "c", Figure: "unaccounted_requests", Reason: attribution.StartedUnknown}}
	c.figures.Revisions = nil
	if w := c.window("c", "b"); !w.Canary.StartedUnknown || w.Canary.OverdueUnknown != "" || w.RequestTimeout != attribution.DefaultTimeout {
		t.Errorf("starts are not counted: %+v", w.Canary)
	}
}

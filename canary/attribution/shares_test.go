// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// The canary takes a third although the Route gives it a twentieth.
func TestShares(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	if f := b.one(t); f.Revisions[1].Shards[AllEntities] != 34 || !has(f, "r2", "handled_requests_total", NotRead) ||
		!has(f, "", "unaccounted_requests", CallsPerRequestUnknown) {
		t.Errorf("%+v", f.NoData)
	}
	for i := 0.0; i < 40; i++ {
		b.pass(15 * time.Second)
		// Requests before the window do not count.
		b.readBoth(handled(10*(i+1), 0), handled(5*(i+1), 30*min(i+1, 10)))
	}
	f := b.one(t)
	if got := *f.Revisions[1].Share; math.Abs(got-1.0/3) > .001 {
		t.Errorf("the share is %v", got)
	}
	r := f.Revisions[1]
	if *r.Members != 0 || *f.Revisions[0].Members != 1 || r.Shards["Cart"] != 5 || *r.Required != .05 ||
		*r.ScrapeAge != 0 {
		t.Errorf("%+v", r)
	}
	b.pass(time.Hour)
	b.read("p1", false, handled(400, 0))
	b.pass(10 * time.Minute)
	b.read("p1", false, handled(400, 0))
	if f := b.one(t); !has(f, "r1", "handled_share_ratio", NoRequests) {
		t.Errorf("%+v", f.NoData)
	}
}

// A Service that appears while this process watches has shares from its first reading, even if nothing
// happens afterwards.
func TestSharesOfANewService(t *testing.T) {
	t.Parallel()
	for fresh, want := range map[bool]*float64{true: ratio(.75), false: nil} {
		b := newBench(fresh, sharded())
		b.pass(12 * time.Second)
		b.readBoth(handled(10, 0), handled(30, 0))
		b.pass(15 * time.Second)
		b.readBoth(handled(10, 0), handled(30, 0))
		if diff := cmp.Diff(want, b.one(t).Revisions[1].Share); diff != "" {
			t.Errorf("fresh: %v: %s", fresh, diff)
		}
	}
}

// Requests carry the names of known Revisions only; one that is gone keeps its name.
func TestEntryRevisions(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	entered := func(at string) mapping.Key { return mapping.Key{Figure: mapping.EnteredAt, Outcome: at} }
	gone, stays := b.facts.Revisions[0].Name, b.facts.Revisions[1].Name
	values := merged(handled(30, 0), map[mapping.Key]float64{
		entered(gone): 20, entered(stays): 4, entered("x"): 3,
		entered("y"): 3,
	})
	b.read("p2", false, values)
	b.facts.Revisions = b.facts.Revisions[1:]
	b.read("p2", false, merged(values, map[mapping.Key]float64{entered(gone): 21}))
	want := map[string]float64{gone: 21, stays: 4, Other: 6}
	if diff := cmp.Diff(want, b.one(t).Revisions[0].EnteredAt); diff != "" {
		t.Error(diff)
	}
}

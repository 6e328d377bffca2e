// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

func ofEntity(entity string, started, finished float64) map[mapping.Key]float64 {
	out := map[mapping.Key]float64{{Figure: mapping.Finished, Entity: entity, Outcome: mapping.OK}: finished}
	if started >= 0 {
		out[mapping.Key{Figure: mapping.Started, Entity: entity}] = started
	}
	return out
}

// Requests that one entity type finishes without counting their start say nothing about the open
// requests of other types.
func TestEntityTypeWithoutStarts(t *testing.T) {
	t.Parallel()
	const uncounted = -1
	for name, c := range map[string]struct {
		// of holds the requests in each interval.
		of map[string][2]float64
		// open is nil if unknown.
		open *float64
	}{
		"one hangs, one counts no starts":   {map[string][2]float64{"Cart": {1000, 500}, "Order": {uncounted, 1000}}, nil},
		"one starts nothing":                {map[string][2]float64{"Cart": {1000, 500}, "Order": {0, 1000}}, nil},
		"both count":                        {map[string][2]float64{"Cart": {1000, 500}, "Order": {1000, 1000}}, ratio(2000)},
		"one finished more than it started": {map[string][2]float64{"Cart": {1000, 500}, "Order": {900, 1000}}, ratio(2000)},
		"one is idle and counts no starts": {
			map[string][2]float64{"Cart": {1000, 500}, "Order": {uncounted, 0}},
			ratio(2000),
		},
		"no entity types": {map[string][2]float64{"": {1000, 500}}, ratio(2000)},
		"starts are counted for all types": {map[string][2]float64{
			"": {1000, 0}, "Cart": {uncounted, 250},
			"Order": {uncounted, 250},
		}, ratio(2000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := sharded()
			f.OneCall = true
			b := newBench(true, f)
			for i := range 4 {
				values := map[mapping.Key]float64{}
				for entity, n := range c.of {
					all := float64(i + 1)
					if name == "starts are counted for all types" && entity == "" {
						values[mapping.Key{Figure: mapping.Started}] = all * n[0]
						continue
					}
					values = merged(values, ofEntity(entity, max(-1, all*n[0]), all*n[1]))
				}
				b.readBoth(handled(1, 0), values)
				b.pass(15 * time.Second)
			}
			figures := b.one(t)
			r := figures.Revisions[1]
			if c.open == nil {
				if r.Open != nil || r.Unaccounted != nil || figures.NeverStarted != nil ||
					!has(figures, "r2", "unaccounted_requests", StartedUnknown) {
					t.Errorf("open %v, unaccounted %v, never started %v, %v", r.Open, r.Unaccounted, figures.NeverStarted,
						figures.NoData)
				}
				return
			}
			if r.Open == nil || *r.Open != *c.open || r.Unaccounted == nil {
				t.Errorf("open %v, unaccounted %v, %v", r.Open, r.Unaccounted, figures.NoData)
			}
			// A request that hangs in a removed pod is lost.
			b.facts.Pods = b.facts.Pods[:1]
			b.Read(cart, nil)
			if r := b.one(t).Revisions[1]; r.Unaccounted == nil || *r.Unaccounted != *c.open {
				t.Errorf("the pod is gone, and %v requests are unaccounted", r.Unaccounted)
			}
		})
	}
}

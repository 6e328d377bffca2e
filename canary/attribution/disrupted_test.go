// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// A drained node takes the open requests of its pods with it. That is not the fault of the Revision.
func TestDisruptionLosesNoRequests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end        func(*Pod)
		gone       bool
		open, lost float64
	}{
		"goes on":                  {func(*Pod) {}, false, 5, 5},
		"failed":                   {func(p *Pod) { p.Failed = true }, false, 0, 5},
		"failed, and is gone":      {func(p *Pod) { p.Failed = true }, true, 0, 5},
		"was drained":              {func(p *Pod) { p.Failed, p.Disrupted = true, true }, false, 0, 0},
		"was drained, and is gone": {func(p *Pod) { p.Disrupted = true }, true, 0, 0},
	} {
		f := sharded()
		f.Revisions[1].Timeout = 30 * time.Second
		b := newBench(true, f)
		hang := func() {
			b.now = b.now.Add(15 * time.Second)
			b.read("p2", false, map[mapping.Key]float64{
				{Figure: mapping.Started, Entity: "Cart"}: 25, {Figure: mapping.Finished, Entity: "Cart", Outcome: mapping.OK}: 20,
			})
		}
		for range 4 {
			hang()
		}
		for i := range b.facts.Pods {
			if b.facts.Pods[i].UID == "p2" {
				c.end(&b.facts.Pods[i])
			}
		}
		b.Read(cart, nil)
		if c.gone {
			var left []Pod
			for _, p := range b.facts.Pods {
				if p.UID != types.UID("p2") {
					left = append(left, p)
				}
			}
			b.facts.Pods = left
			b.Read(cart, nil)
		}
		is := b.one(t).Revisions[1]
		if is.Open == nil || *is.Open != c.open || is.Unaccounted == nil || *is.Unaccounted != c.lost {
			t.Errorf("a pod that %s: %v open and %v unaccounted for, want %v and %v", name, show(is.Open), show(is.Unaccounted),
				c.open, c.lost)
		}
	}
}

func show(n *float64) any {
	if n == nil {
		return "unknown"
	}
	return *n
}

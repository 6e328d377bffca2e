// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"math/rand"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
)

// All methods at the same time, while pods come and go.
func TestCountsAreUsedConcurrently(t *testing.T) {
	t.Parallel()
	c := NewCounts(func(types.NamespacedName) Facts {
		f := sharded()
		if rand.Intn(2) == 0 {
			f.Pods = nil
		}
		return f
	}, time.Now)
	var all sync.WaitGroup
	from := Snapshot{}
	for _, f := range []func(n float64){
		func(n float64) {
			if int(n)%20 == 0 {
				c.End(cart)
				c.Begin(cart, int(n)%40 == 0)
			}
			c.Read(cart, []scrape.Reading{{
				Target: scrape.Target{Pod: "p1"}, At: time.Now(),
				Exposition: expose(mapping.NeutralName, 1e9, handled(n, 0)),
			}})
		},
		func(float64) { _ = slices.Collect(c.Figures()); c.Health(); c.Failures(cart) },
		func(float64) { c.Figure(cart); c.Loads(cart) },
		func(float64) {
			if s, ok := c.Snapshot(cart); ok {
				c.Since(cart, s)
				c.Since(cart, from)
				s.Past("r1")
				s.Before("r1")
			}
		},
	} {
		all.Go(func() {
			for n := range 400 {
				f(float64(n))
			}
		})
	}
	all.Wait()
}

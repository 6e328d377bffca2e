// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// A counter of errors that begins again while the others of its process go on hides no errors: until it is trusted, what
// it counts are requests of unknown outcome.
func TestErrorsAreNotLostWithTheirCounter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		errors         []float64
		known, unknown float64
		unanswering    []int
	}{
		"goes on":                     {[]float64{100, 110, 120, 130, 140, 150, 160}, 160, 0, []int{0, 0, 0, 0, 0, 0, 0}},
		"a single false value":        {[]float64{100, 110, 2, 130, 140, 150, 160}, 160, 0, []int{0, 0, 0, 0, 0, 0, 0}},
		"begins again":                {[]float64{100, 110, 5, 15, 25, 35, 45}, 130, 25, []int{0, 0, 0, 1, 1, 1, 1}},
		"begins again, and once more": {[]float64{100, 5, 15, 2, 12, 22, 32}, 130, 17, []int{0, 0, 1, 1, 1, 1, 0}},
		"is always low again":         {[]float64{100, 5, 100, 5, 100, 5, 100}, 100, 0, []int{0, 0, 0, 1, 1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(true, sharded())
			var counted Tally
			for i, n := range c.errors {
				b.pass(15 * time.Second)
				now := handled(1000+100*float64(i), n)
				now[mapping.Key{Figure: mapping.Started, Entity: "Cart"}] = 2000 + 200*float64(i)
				b.read("p2", false, now)
				b.read("p1", false, handled(1, 0))
				if got := b.one(t).Revisions[1].Unanswering; got != c.unanswering[i] {
					t.Errorf("reading %d: %d are unanswering", i, got)
				}
				s, _ := b.Snapshot(cart)
				counted = s.Revisions()["r2"]
			}
			if counted.Finished[mapping.Error] != c.known || counted.Finished[mapping.Unknown] != c.unknown {
				t.Errorf("%v", counted.Finished)
			}
		})
	}
}

// At entry, the other family of queue-proxy goes on. What it counted before the first one began again was not cut off, and
// requests that finished are not open.
func TestACounterThatBeginsAgainInventsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	for i, n := range []float64{100, 110, 5, 15, 25, 35, 45} {
		b.pass(15 * time.Second)
		more := 10 * float64(i)
		app := handled(1000+10*more, n)
		app[mapping.Key{Figure: mapping.Started, Entity: "Cart"}] = 1100 + 11*more
		b.read("p2", false, app)
		b.read("p2", true, map[mapping.Key]float64{
			entry(mapping.EntryHTTP, "200"): 1000 + more, entry(mapping.EntryHTTP, "404"): 10 + more,
			entry(mapping.EntryHTTP, "500"): n, entry(mapping.EntryServing, "500"): 100 + more,
			entry(mapping.EntryServing, "200"): 1000 + more,
		})
	}
	s, _ := b.Snapshot(cart)
	counted := s.Revisions()["r2"]
	// 5 finished between the last reading and the fall.
	if counted.Cut != 5 || counted.Entered["500"] != 130 || counted.Entered[mapping.Unknown] != 25 {
		t.Errorf("%v were cut, and %v entered", counted.Cut, counted.Entered)
	}
	if open := b.one(t).Revisions[1].Open; open == nil || *open > 10 {
		t.Errorf("%v are open", *open)
	}
}

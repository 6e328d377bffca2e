// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"errors"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
)

// A pod of a stateful cluster holds its shards for as long as it runs. What it handles is not known if it answers
// without its counters, or is not ready and does not answer.
func TestPodsThatServeUnseenAreUnanswering(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		pod  Pod
		err  error
		read bool
		want int
	}{
		"answers without its counters":        {Pod{Ready: true, Running: true}, nil, true, 1},
		"has never had counters":              {Pod{Ready: true, Running: true}, nil, false, 0},
		"is not ready and does not answer":    {Pod{Running: true}, refused, true, 1},
		"has not answered since it began":     {Pod{Running: true}, refused, false, 0},
		"is about to end and does not answer": {Pod{}, refused, true, 0},
	} {
		f := sharded()
		c.pod.UID, c.pod.Revision = "p3", "r2"
		f.Pods = append(f.Pods, c.pod)
		b := newBench(true, f)
		if c.read {
			b.readBoth(handled(10, 0), handled(20, 0))
			b.read("p3", false, handled(1, 0))
		}
		for range 3 {
			b.readBoth(handled(10, 0), handled(20, 0))
			b.Read(cart, []scrape.Reading{{Target: scrape.Target{Pod: "p3"}, At: b.now, Err: c.err}})
		}
		if n := b.one(t).Revisions[1].Unanswering; n != c.want {
			t.Errorf("a pod that %s: %d are unanswering, not %d", name, n, c.want)
		}
		b.read("p3", false, handled(2, 0))
		if n := b.one(t).Revisions[1].Unanswering; n != 0 {
			t.Errorf("a pod that %s: it answers again, and %d are unanswering", name, n)
		}
	}
}

// A pod that has never counted a request may have had none. But if it is a member of the cluster, and the others of its
// Revision have handled many, what it handles is hidden, and a verdict would rest on the others.
func TestPodsThatNeverCountAreMissed(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	holds := func(n float64) map[mapping.Key]float64 {
		return map[mapping.Key]float64{{Figure: mapping.Shards, Entity: "Cart"}: n}
	}
	for name, c := range map[string]struct {
		pod     Pod
		err     error
		exports map[mapping.Key]float64
		handled float64
		minutes int
		want    int
	}{
		"answers without counters":              {Pod{Ready: true, Running: true}, nil, nil, 100, 1, 1},
		"holds shards, without counters":        {Pod{Ready: true, Running: true}, nil, holds(5), 100, 1, 1},
		"holds no shards":                       {Pod{Ready: true, Running: true}, nil, holds(0), 1000, 1, 0},
		"had few requests beside it":            {Pod{Ready: true, Running: true}, nil, nil, 99, 1, 0},
		"is starting":                           {Pod{Running: true}, refused, nil, 1000, 1, 0},
		"has not been ready or read for long":   {Pod{Running: true}, refused, nil, 1000, 6, 1},
		"is about to end":                       {Pod{}, refused, nil, 1000, 6, 0},
		"came after the requests of the others": {Pod{Ready: true, Running: true}, nil, nil, 0, 1, 0},
	} {
		f := sharded()
		b := newBench(true, f)
		b.readBoth(handled(10, 0), handled(2000, 0))
		c.pod.UID, c.pod.Revision = "p3", "r2"
		f.Pods = append(f.Pods, c.pod)
		b.facts = f
		b.readBoth(handled(10, 0), handled(2000, 0))
		b.pass(time.Duration(c.minutes) * time.Minute)
		b.readBoth(handled(10, 0), handled(2000+c.handled, 0))
		r := scrape.Reading{Target: scrape.Target{Pod: "p3"}, At: b.now, Err: c.err}
		if c.exports != nil {
			r.Exposition = expose(mapping.NeutralName, 1e9, c.exports)
		}
		b.Read(cart, []scrape.Reading{r})
		if n := b.one(t).Revisions[1].Unanswering; n != c.want {
			t.Errorf("a pod that %s: %d are unanswering, not %d", name, n, c.want)
		}
		if c.err != nil {
			continue
		}
		b.read("p3", false, handled(1, 0))
		if n := b.one(t).Revisions[1].Unanswering; n != 0 {
			t.Errorf("a pod that %s: it counts, and %d are unanswering", name, n)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"errors"
	"testing"

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

// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
)

// A pod's counts outlive it; the requests it started and did not finish stay unaccounted.
func TestDeletedPodKeepsItsCounts(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	b.read("p2", false, merged(handled(20, 1), map[mapping.Key]float64{{Figure: mapping.Started, Entity: "Cart"}: 24}))
	b.facts.Pods = b.facts.Pods[:1]
	b.read("p1", false, handled(1, 0))
	r := b.one(t).Revisions[1]
	if r.Handled["ok"] != 20 || r.Handled["error"] != 1 || *r.Unaccounted != 3 || r.Pods != 0 {
		t.Errorf("%+v", r)
	}
	c, ok := b.Snapshot(cart)
	if !ok || c.Revisions()["r2"].Shards[ShardKey{Shard: "7"}] != (Shard{OK: 20, Slow: 1}) {
		t.Errorf("%+v", c)
	}
	// The copy belongs to the judge.
	c.Revisions()["r2"].Finished["ok"] = 99
	if again, _ := b.Snapshot(cart); again.Revisions()["r2"].Finished["ok"] != 20 {
		t.Error("a copy shares memory with the counts")
	}
	// A new Revision with the same name is another Revision.
	b.facts.Revisions[1].UID = "r2'"
	b.read("p1", false, handled(1, 0))
	if r := b.one(t).Revisions[1]; r.Handled["ok"] != 0 {
		t.Errorf("%+v", r)
	}
	b.End(cart)
	if len(b.keys()) != 0 {
		t.Error("the figures still have a Service that another process leads")
	}
	if _, ok := b.Snapshot(cart); ok {
		t.Error("the Service is still counted")
	}
	if _, ok := b.Figure(cart); ok {
		t.Error("the Service is still known")
	}
}

// The user's container restarts again and again beside the sidecar, which counts. Nothing that it had counted is new.
func TestContainerRestartsBesideTheOneThatCounts(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	for i := range 5 {
		b.pass(15 * time.Second)
		b.facts.Pods[1].Restarts, b.facts.Pods[1].OOMKilled = i, true
		// It is in the middle of three requests whenever it ends, which the sidecar counts as errors.
		values := merged(handled(1000+float64(i), 3*float64(i)), map[mapping.Key]float64{{Figure: mapping.Started, Entity: "Cart"}: 1003 + 4*float64(i)})
		b.Read(cart, []scrape.Reading{{
			Target: scrape.Target{Pod: "p2", Container: "sidecar"}, At: b.now, Exposition: expose(mapping.NeutralName, 0, values),
		}})
	}
	s, _ := b.Snapshot(cart)
	if r := s.Revisions()["r2"]; r.Finished["ok"] != 1004 || r.Finished["error"] != 12 || r.Lost != 0 || r.Restarts[RestartedOOM] != 4 {
		t.Errorf("finished %v, %v lost, restarts %v", r.Finished, r.Lost, r.Restarts)
	}
}

// Hanging requests are found under traffic, and slow ones are not mistaken for them.
func TestUnaccounted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		open func(i int) float64
		took float64 // per request
		want float64
	}{
		"nothing hangs":          {func(int) float64 { return 0 }, .01, 0},
		"three hang":             {func(int) float64 { return 3 }, .01, 3},
		"slow requests are open": {func(i int) float64 { return 4 + float64(i%3) }, 7.5, 0},
		"requests come and go":   {func(i int) float64 { return float64(i % 5) }, .01, 0},
	} {
		b := newBench(true, sharded())
		for i := range 30 {
			b.pass(15 * time.Second)
			n := float64(10 * (i + 1))
			b.read("p2", false, merged(handled(n, 0), map[mapping.Key]float64{
				{Figure: mapping.Started, Entity: "Cart"}: n + c.open(i), {Figure: mapping.DurationSum, Entity: "Cart"}: n * c.took,
			}))
		}
		if got := b.one(t).Revisions[1].Unaccounted; got == nil || *got != c.want {
			t.Errorf("%s: got %v", name, *got)
		}
	}
}

// Open requests are those that existing pods started and did not finish, whichever process watched
// them. They are unknown if nothing counts starts or a serving pod was not read.
func TestOpenRequests(t *testing.T) {
	t.Parallel()
	began := func(n, finished float64) map[mapping.Key]float64 {
		return merged(handled(finished, 0), map[mapping.Key]float64{{Figure: mapping.Started, Entity: "Cart"}: n})
	}
	b := newBench(false, sharded())
	if got := b.one(t).Revisions[1].Open; got != nil {
		t.Errorf("a serving pod was not read, but %v requests are open", *got)
	}
	b.read("p2", false, began(24, 20))
	if got := b.one(t).Revisions[1].Open; got == nil || *got != 4 {
		t.Errorf("started 24 and finished 20: %v", got)
	}
	b.read("p2", false, began(30, 30))
	if got := b.one(t).Revisions[1].Open; got == nil || *got != 0 {
		t.Errorf("all finished: %v", got)
	}
	b.read("p1", false, map[mapping.Key]float64{{Figure: mapping.Finished, Outcome: mapping.OK}: 9})
	if got := b.one(t).Revisions[0].Open; got != nil {
		t.Errorf("starts are not counted, but %v requests are open", *got)
	}
	b.facts.Pods = b.facts.Pods[:1]
	b.read("p1", false, map[mapping.Key]float64{{Figure: mapping.Finished, Outcome: mapping.OK}: 9})
	if got := b.one(t).Revisions[1].Open; got == nil || *got != 0 {
		t.Errorf("without pods, %v requests are open", got)
	}
}

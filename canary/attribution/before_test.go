// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// ofShards returns n requests of each shard.
func ofShards(n float64, shards ...string) map[mapping.Key]float64 {
	out := map[mapping.Key]float64{{Figure: mapping.Started, Entity: "Cart"}: n, finishedKey(mapping.OK): n}
	for _, s := range shards {
		out[mapping.Key{Figure: mapping.ShardFinished, Shard: s, Outcome: mapping.OK}] = n
	}
	return out
}

func knownBefore(t *testing.T, b *bench) map[string]float64 {
	t.Helper()
	s, ok := b.Snapshot(cart)
	if !ok {
		t.Fatal("no snapshot")
	}
	before := s.Revisions()["r2"].Before
	if before == nil {
		return nil
	}
	out := map[string]float64{}
	for k, shard := range before {
		out[k.Shard] = shard.Finished()
	}
	return out
}

// The past of all shards ends when the canary has its first. Shards that the baseline gets after that
// are as new as the canary's.
func TestPastEndsWithTheCanarysFirstShard(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	b.readBoth(ofShards(10, "1", "2"), ofShards(0))
	if got := knownBefore(t, b); got != nil {
		t.Errorf("the canary has no shard, but the past is %v", got)
	}
	b.pass(time.Minute)
	b.readBoth(ofShards(30, "1", "3"), ofShards(5, "2", "4"))
	// All Revisions count for the load of a shard.
	loads := map[ShardKey]float64{{Shard: "1"}: 30, {Shard: "2"}: 15, {Shard: "3"}: 30, {Shard: "4"}: 5}
	if diff := cmp.Diff(loads, b.Loads(cart)); diff != "" {
		t.Error(diff)
	}
	want := map[string]float64{"1": 10, "2": 10}
	if diff := cmp.Diff(want, knownBefore(t, b)); diff != "" {
		t.Error(diff)
	}
	b.pass(time.Minute)
	b.readBoth(ofShards(50, "1", "3", "5"), ofShards(9, "2", "4", "6"))
	if diff := cmp.Diff(want, knownBefore(t, b)); diff != "" {
		t.Error(diff)
	}
	// A canary that is rolled back and returns finds the past up to that moment.
	f := b.facts
	b.facts.Revisions[1].Required, b.facts.Pods = ratio(0), f.Pods[:1]
	b.Read(cart, nil)
	if got := knownBefore(t, b); got != nil {
		t.Errorf("the canary is gone, but the past is %v", got)
	}
}

// If all Revisions start together there is no past, whichever pod is read first.
func TestNoPastIfAllRevisionsStartTogether(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	b.readBoth(ofShards(10, "1", "2"), ofShards(5, "3"))
	if got := knownBefore(t, b); got == nil || len(got) > 0 {
		t.Errorf("the past is %v", got)
	}
}

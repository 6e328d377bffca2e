// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"math"
	"testing"
	"time"
)

// Pods are compared per minute, so a minute that is bad for all pods is no difference between them.
// What each pod did since a snapshot is known per pod.
func TestHowPodsDiffer(t *testing.T) {
	t.Parallel()
	f := sharded()
	f.Pods[1].Revision = "r1"
	b := newBench(true, f)
	b.readBoth(handled(0, 0), handled(0, 0))
	b.pass(time.Minute)
	b.readBoth(handled(50, 50), handled(150, 150)) // an outage of both pods
	b.pass(time.Minute)
	b.readBoth(handled(150, 50), handled(240, 160)) // an outage of one pod
	for range 3 {
		b.pass(15 * time.Second)
		b.readBoth(handled(150, 50), handled(240, 160)) // less than a minute later
	}
	s, _ := b.Snapshot(cart)
	past := s.Past("r1")
	if len(past) != 2 || len(s.Past("r2")) != 0 {
		t.Fatalf("%+v", past)
	}
	bad, expected := map[float64]float64{}, 0.0
	for _, p := range past {
		if p.Watched != 2*time.Minute {
			t.Errorf("watched for %s", p.Watched)
		}
		bad[p.Errors.Bad] = p.Errors.Expected
		expected += p.Errors.Expected
	}
	// 200 requests with 10 errors in the second minute; each pod had half of them.
	if math.Abs(bad[50]-55) > 1e-9 || math.Abs(bad[160]-155) > 1e-9 || expected != 210 {
		t.Errorf("bad and expected requests: %v", bad)
	}
	from := handedOver(t, s)
	if from.Past("r1") != nil {
		t.Error("the past was stored")
	}
	b.readBoth(handled(160, 51), handled(240, 160))
	pods := since(t, b, from).Pods
	if p := pods["p1"]; p.Revision != "r1" || p.Finished["ok"] != 10 || p.Finished["error"] != 1 ||
		p.Shards[ShardKey{Shard: "7"}].OK != 10 || len(pods) != 2 {
		t.Errorf("%+v", pods)
	}
	// The snapshot has what each pod had exported, so another process knows the same.
	if d := since(t, b.read2(), from); d.Pods["p1"].Finished["ok"] != 10 || len(d.Pods) != 2 {
		t.Errorf("another process has %+v", d.Pods)
	}
}

// read2 returns another process that has read both pods.
func (b *bench) read2() *bench {
	next := b.successor()
	next.readBoth(handled(160, 51), handled(240, 160))
	return next
}

// The past keeps one hour, and at most two.
func TestPastIsDroppedAfterTwoHours(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	for i := range 600 {
		b.readBoth(handled(float64(i), 0), handled(float64(i), 0))
		b.pass(time.Minute)
	}
	s, _ := b.Snapshot(cart)
	if p := s.Past("r1"); len(p) != 1 || p[0].Watched < pastKept || p[0].Watched > 2*pastKept {
		t.Errorf("%+v", p)
	}
}

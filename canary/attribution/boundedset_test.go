// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// heap returns the live heap, in MiB.
func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// A pod that exports other buckets, entity types and shards in each of 1,000 readings uses bounded
// memory, and all of it is released with the pod.
func TestAThousandReadings(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	const each = 300
	b := newBench(true, Facts{
		Revisions: []Revision{{Revision: &lifecycle.Revision{UID: "r1", Name: "cart-1", Stateful: "pekko"}, Required: ratio(1)}},
		Pods:      []Pod{{UID: "p1", Revision: "r1", Ready: true}},
	})
	reader := mapping.NewReader(mapping.Neutral())
	memory := scrape.NewMemory(reader)
	before := heap()
	most := 0.0
	for n := range 1000 {
		text := []byte("stateful_requests_total{outcome=\"ok\"} 1\n")
		for i := range each / 3 {
			id := n*each + i
			text = fmt.Appendf(text, "stateful_request_duration_seconds_bucket{le=\"0.%09d\"} 1\n", id)
			text = fmt.Appendf(text, "stateful_requests_started_total{entity_type=\"e%d\"} 1\n", id)
			text = fmt.Appendf(text, "stateful_shard_requests_total{shard=\"s%d\",outcome=\"ok\"} 1\n", id)
		}
		e, err := memory.Parse(text, "", 10_000)
		if err != nil {
			t.Fatal(err)
		}
		b.pass(time.Second)
		b.Read(cart, []scrape.Reading{{Target: scrape.Target{Pod: "p1"}, At: b.now, Exposition: e}})
		if n%200 == 199 {
			most = max(most, heap())
		}
	}
	if grown := most - before; grown > 16 {
		t.Errorf("%.1f MiB after 1,000 readings", grown)
	}
	b.facts.Pods = nil
	b.Read(cart, nil)
	memory = nil
	_ = memory
	// The Revision's counts per shard stay until room is needed: 4,096 at most.
	if left := heap() - before; left > 3 {
		t.Errorf("%.1f MiB stay after the pod is gone", left)
	}
	runtime.KeepAlive(b)
}

// The exported bounds always have room, whatever else a pod exports.
func TestManyBounds(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	for n := range 50 {
		b.pass(time.Second)
		values := merged(histogram(mapping.Duration, mapping.DurationSum, float64(n)),
			map[mapping.Key]float64{finishedKey(mapping.OK): float64(n)})
		for i := range 100 {
			values[mapping.Key{Figure: mapping.Duration, Bound: float64(1000*n + i + 100)}] = float64(n)
		}
		b.read("p1", false, values)
	}
	r := b.one(t).Revisions[0]
	if r.Durations == nil || r.Durations.Count != 49 || r.Durations.Buckets[.025] != 49 {
		t.Errorf("%+v", r.Durations)
	}
	if n := len(b.services[cart].tallies["r1"].Buckets); n > len(bounds)+1+maxBounds {
		t.Errorf("%d buckets are kept", n)
	}
	if b.Health().Rejected[RejectedBound] == 0 {
		t.Error("the limit is not reported")
	}
}

// After any number of Revisions, requests that entered at a live one carry its name.
func TestNamesOfRevisions(t *testing.T) {
	t.Parallel()
	b := newBench(true, Facts{})
	for n := range 3 * maxNames {
		name := fmt.Sprintf("cart-%05d", n)
		uid := types.UID(fmt.Sprint("r", n))
		b.facts.Revisions = append(b.facts.Revisions, Revision{Revision: &lifecycle.Revision{UID: uid, Name: name, Stateful: "pekko"}, Configuration: "cart"})
		b.facts.Pods = []Pod{{UID: "pod-" + uid, Revision: uid, Ready: true}}
		b.pass(time.Second)
		b.Read(cart, nil)
		b.read("pod-"+uid, false, map[mapping.Key]float64{
			finishedKey(mapping.OK):                    7,
			{Figure: mapping.EnteredAt, Outcome: name}: 7,
		})
		f := b.one(t)
		if got := f.Revisions[n].EnteredAt; got[name] != 7 || got[Other] != 0 {
			t.Fatalf("Revision %d: %v", n, got)
		}
	}
	if n := len(b.services[cart].names.is); n > maxNames {
		t.Errorf("%d names", n)
	}
}

// A new entity type takes the place of one that is gone.
func TestEntityTypesThatAreGone(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	for n := range 3 * maxEntities {
		b.pass(time.Second)
		b.read("p1", false, map[mapping.Key]float64{
			finishedKey(mapping.OK):                                  1,
			{Figure: mapping.Shards, Entity: fmt.Sprint("type-", n)}: 3,
		})
		if n := b.Health().Rejected[RejectedEntity]; n > 0 {
			t.Fatalf("%v entity types exceeded the limit", n)
		}
	}
}

// A Revision's counts per shard go with its pods and traffic, and all Services together have a limit.
func TestShardsThatAreGone(t *testing.T) {
	t.Parallel()
	b := newBench(true, Facts{})
	shards := map[mapping.Key]float64{finishedKey(mapping.OK): 100}
	for i := range 100 {
		shards[mapping.Key{Figure: mapping.ShardFinished, Shard: fmt.Sprint(i), Outcome: mapping.OK}] = 1
	}
	for n := range 20 {
		uid := types.UID(fmt.Sprint("r", n))
		for i := range b.facts.Revisions {
			b.facts.Revisions[i].Required = ratio(0)
		}
		b.facts.Revisions = append(b.facts.Revisions,
			Revision{Revision: &lifecycle.Revision{UID: uid, Name: string(uid), Stateful: "pekko"}, Required: ratio(1)})
		b.facts.Pods = []Pod{{UID: "pod-" + uid, Revision: uid, Ready: true}}
		b.pass(time.Second)
		b.Read(cart, nil)
		b.read("pod-"+uid, false, shards)
	}
	known, kept := b.services[cart], 0
	for _, tally := range known.tallies {
		kept += len(tally.Shards)
	}
	if kept != 100 || len(known.tallies) != 20 || known.tallies["r3"].Total() != 100 {
		t.Errorf("%d shards are kept of %d Revisions", kept, len(known.tallies))
	}
	other := newServiceCounts(true)
	for i := range maxAllShards {
		other.shards.is[ShardKey{Shard: fmt.Sprint(i)}] = true
	}
	b.services[types.NamespacedName{Name: "other"}] = other
	for i := range 1000 {
		shards[mapping.Key{Figure: mapping.ShardFinished, Shard: fmt.Sprint(1000 + i), Outcome: mapping.OK}] = 1
	}
	b.pass(time.Second)
	b.read("pod-r19", false, shards)
	if n := len(known.shards.is); n != leastShards {
		t.Errorf("%d shards are counted separately although other Revisions use up the limit", n)
	}
}

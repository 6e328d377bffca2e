// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// restartingPod reads two pods of one Revision once a minute. The second one is a new process at the last reading, so
// what the former one counted after the reading before is not known.
func restartingPod(t *testing.T) (b *bench, before Snapshot) {
	t.Helper()
	f := sharded()
	f.Pods[1].Revision = "r1"
	b = newBench(true, f)
	b.readBoth(handled(0, 0), handled(0, 0))
	b.pass(time.Minute)
	b.readBoth(handled(50, 10), handled(50, 30))
	s, _ := b.Snapshot(cart)
	before = handedOver(t, s)
	b.pass(time.Minute)
	all := b.told(says{"p1": handled(100, 20), "p2": handled(1, 7)})
	for i := range all {
		if all[i].Target.Pod == "p2" {
			all[i].Start = 2e9
		}
	}
	b.Read(cart, all)
	return b, before
}

// A minute of which a pod's counts are incomplete says nothing about that pod, and nothing about what the others
// should have.
func TestIncompleteCountsAreNotCompared(t *testing.T) {
	t.Parallel()
	b, _ := restartingPod(t)
	s, _ := b.Snapshot(cart)
	got := map[time.Duration]Expected{}
	for _, p := range s.Past("r1") {
		got[p.Watched] = p.Errors
	}
	// In the first minute, 40 of 140 requests were bad. In the second, only the first pod is known.
	want := map[time.Duration]Expected{
		2 * time.Minute: {Bad: 20, Expected: 60*40.0/140 + 10},
		time.Minute:     {Bad: 30, Expected: 80 * 40.0 / 140},
	}
	if diff := cmp.Diff(want, got, closeEnough); diff != "" {
		t.Error(diff)
	}
}

var closeEnough = cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })

// Of the pods since a snapshot, only those are named of which everything is known.
func TestIncompletePodsAreNotNamed(t *testing.T) {
	t.Parallel()
	b, before := restartingPod(t)
	pods := since(t, b, before).Pods
	if p, known := pods["p1"]; !known || p.Finished["error"] != 10 || len(pods) != 1 {
		t.Errorf("%+v", pods)
	}
}

// A reading that cannot show whether the canary had a request of a shard ends the past as a failed one does.
func TestPastEndsWhenAReadingIsUnsure(t *testing.T) {
	t.Parallel()
	idle := ofShards(5) // requests, but none of a shard
	for name, unsure := range map[string]says{
		"its source is missing":                    {"p1": ofShards(20, "1"), "p2": {}},
		"a count has fallen":                       {"p1": ofShards(20, "1"), "p2": ofShards(4)},
		"one pod of two is new and cannot be read": {"p1": ofShards(20, "1"), "p2": idle, "p3": nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(true, sharded())
			b.Read(cart, b.told(says{"p1": ofShards(10, "1"), "p2": idle}))
			b.pass(15 * time.Second)
			if _, more := unsure["p3"]; more {
				b.facts.Pods = append(b.facts.Pods[:2:2], Pod{UID: "p3", Revision: "r2", Ready: true})
			}
			b.Read(cart, b.told(unsure))
			b.pass(15 * time.Second)
			b.Read(cart, b.told(says{"p1": ofShards(30, "1"), "p2": ofShards(9, "4")}))
			if diff := cmp.Diff(map[string]float64{"1": 10}, pastFor(t, b)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// An answer of the canary that began before the last answer of the baseline says nothing about the time in between.
func TestPastIsNotProlongedByALateAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	late := func(pod types.UID, all says, by, took time.Duration) {
		readings := b.told(all)
		for i := range readings {
			if readings[i].Target.Pod == pod {
				readings[i].At, readings[i].Took = readings[i].At.Add(by), took
			}
		}
		b.Read(cart, readings)
	}
	late("p1", says{"p1": ofShards(10, "1"), "p2": ofShards(0)}, 4*time.Second, 4*time.Second)
	b.pass(5 * time.Second)
	late("p2", says{"p1": ofShards(20, "1"), "p2": ofShards(0)}, 0, 3*time.Second)
	// The canary had none when it was asked, two seconds before the baseline had counted 10.
	if diff := cmp.Diff(map[string]float64{}, pastFor(t, b)); diff != "" {
		t.Error(diff)
	}
}

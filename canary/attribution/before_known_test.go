// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
)

// told returns the readings of pods at the same moment; nil means that the pod cannot be read.
func (b *bench) told(pods map[types.UID]map[mapping.Key]float64) []scrape.Reading {
	var out []scrape.Reading
	for uid, values := range pods {
		r := scrape.Reading{Target: scrape.Target{Pod: uid}, At: b.now, Exposition: expose(mapping.NeutralName, 1e9, values)}
		if values == nil {
			r.Err = errors.New("refused")
		}
		out = append(out, r)
	}
	return out
}

// pastFor returns the past that a gate starting now uses.
func pastFor(t *testing.T, b *bench) map[string]float64 {
	t.Helper()
	s, ok := b.Snapshot(cart)
	if !ok {
		t.Fatal("no snapshot")
	}
	out := map[string]float64{}
	for k, shard := range s.Before("r2") {
		out[k.Shard] = shard.Finished()
	}
	return out
}

type says = map[types.UID]map[mapping.Key]float64

// The past of all shards ends at one moment: when the canary was last known to have had none.
func TestPastEndsWhenTheCanaryIsUnknown(t *testing.T) {
	t.Parallel()
	unread := map[mapping.Key]float64(nil)
	restarted := sharded()
	restarted.Pods[1].Restarts = 1
	gone := sharded()
	gone.Pods = gone.Pods[:1]
	for name, c := range map[string]struct {
		fresh bool
		facts Facts
		// says lists consecutive readings; a pod that is left out was not scraped.
		says []says
		// lost removes the canary's pod before the last reading.
		lost bool
		want map[string]float64
	}{
		"new process, idle canary": {false, sharded(), []says{
			{"p1": ofShards(100, "1", "2", "3"), "p2": ofShards(50, "4", "5")},
			{"p1": ofShards(110, "1", "2"), "p2": ofShards(50, "4", "5")},
			{"p1": ofShards(120, "1", "2", "3"), "p2": ofShards(55, "4", "5")},
		}, false, map[string]float64{}},
		"gate starts before the canary's first request to it": {false, sharded(), []says{
			{"p1": ofShards(100, "1", "2", "3"), "p2": ofShards(50, "4", "5")},
			{"p1": ofShards(110, "1", "2", "3"), "p2": ofShards(50, "4", "5")},
		}, false, map[string]float64{}},
		"canary not readable at first": {false, sharded(), []says{
			{"p1": ofShards(100, "1"), "p2": unread},
			{"p1": ofShards(110, "1"), "p2": unread},
			{"p1": ofShards(120, "1"), "p2": ofShards(50, "4")},
			{"p1": ofShards(130, "1"), "p2": ofShards(55, "4")},
		}, false, map[string]float64{}},
		"canary without requests at the takeover": {false, sharded(), []says{
			{"p1": ofShards(100, "1"), "p2": ofShards(0, "4")},
			{"p1": ofShards(110, "1"), "p2": ofShards(0, "4")},
			{"p1": ofShards(120, "1"), "p2": ofShards(5, "4")},
		}, false, map[string]float64{"1": 10}},
		"canary process restarted before that": {false, restarted, []says{
			{"p1": ofShards(100, "1"), "p2": ofShards(0)},
			{"p1": ofShards(110, "1"), "p2": ofShards(0)},
		}, false, map[string]float64{}},
		"one failed reading of the canary": {true, sharded(), []says{
			{"p1": ofShards(10, "1"), "p2": ofShards(0)},
			{"p1": ofShards(20, "1"), "p2": unread},
			{"p1": ofShards(30, "1"), "p2": ofShards(5, "4")},
		}, false, map[string]float64{"1": 10}},
		"gate starts during the failure": {true, sharded(), []says{
			{"p1": ofShards(10, "1"), "p2": ofShards(0)},
			{"p1": ofShards(20, "1"), "p2": unread},
		}, false, map[string]float64{"1": 10}},
		"canary still without requests after the failure": {true, sharded(), []says{
			{"p1": ofShards(10, "1"), "p2": ofShards(0)},
			{"p1": ofShards(20, "1"), "p2": unread},
			{"p1": ofShards(30, "1"), "p2": ofShards(0)},
			{"p1": ofShards(40, "1"), "p2": ofShards(5, "4")},
		}, false, map[string]float64{"1": 30}},
		"only the baseline is read for some time": {true, sharded(), []says{
			{"p1": ofShards(10, "1"), "p2": ofShards(0)},
			{"p1": ofShards(20, "1")},
			{"p1": ofShards(30, "1")},
			{"p2": ofShards(5, "4")},
		}, false, map[string]float64{"1": 10}},
		"canary pod replaced": {true, sharded(), []says{
			{"p1": ofShards(10, "1"), "p2": ofShards(0)},
			{"p1": ofShards(20, "1"), "p2": unread},
			{"p1": ofShards(30, "1")},
		}, true, map[string]float64{"1": 10}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(c.fresh, c.facts)
			for i, said := range c.says {
				if c.lost && i == len(c.says)-1 {
					b.facts = gone
					b.Read(cart, nil)
				}
				b.Read(cart, b.told(said))
				b.pass(15 * time.Second)
			}
			if diff := cmp.Diff(c.want, pastFor(t, b)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What a process did between its last reading and its end is unknown.
func TestPastEndsWhenTheCanaryRestarts(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	for i, start := range []float64{1e9, 1e9, 2e9, 2e9} {
		all := b.told(says{"p1": ofShards(10*float64(i+1), "1"), "p2": ofShards(0)})
		for j := range all {
			if all[j].Target.Pod == "p2" {
				all[j].Start = start
			}
		}
		b.Read(cart, all)
		b.pass(15 * time.Second)
	}
	if diff := cmp.Diff(map[string]float64{"1": 20}, pastFor(t, b)); diff != "" {
		t.Error(diff)
	}
}

// Pods scraped together do not answer at the same time.
func TestPastEndsBeforeALateResponseOfTheBaseline(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	for i := range 3 {
		all := b.told(says{"p1": ofShards(10*float64(i+1), "1"), "p2": ofShards(float64(i/2), "4")})
		for j := range all {
			if all[j].Target.Pod == "p1" {
				all[j].At, all[j].Took = all[j].At.Add(4*time.Second), 4*time.Second
			}
		}
		b.Read(cart, all)
		b.pass(15 * time.Second)
	}
	// The canary had none in the second reading, and the baseline answered that one 4 s later.
	if diff := cmp.Diff(map[string]float64{"1": 10}, pastFor(t, b)); diff != "" {
		t.Error(diff)
	}
}

// The counts of a rolled-back canary are dropped. What other shards did meanwhile is no past either,
// because only they would have it.
func TestPastOfAReturningCanary(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	read := func(p1, p2 map[mapping.Key]float64) {
		b.readBoth(p1, p2)
		b.pass(15 * time.Second)
	}
	read(ofShards(10, "1", "2", "3"), ofShards(0))
	read(ofShards(30, "1", "2"), ofShards(20, "3"))
	f := b.facts
	gone := f
	gone.Revisions = []Revision{f.Revisions[0], f.Revisions[1]}
	gone.Revisions[1].Required, gone.Pods = ratio(0), f.Pods[:1]
	b.facts = gone
	b.Read(cart, nil)
	want := map[string]float64{"1": 10, "2": 10, "3": 10}
	if diff := cmp.Diff(want, pastFor(t, b)); diff != "" {
		t.Errorf("after the rollback: %s", diff)
	}
	b.read("p1", false, merged(ofShards(35, "1", "2"), ofShards(15, "3")))
	b.pass(15 * time.Second)
	back := f
	back.Pods = []Pod{f.Pods[0], {UID: "p3", Revision: "r2", Ready: true}}
	b.facts = back
	want = map[string]float64{"1": 15, "2": 15, "3": 15}
	if diff := cmp.Diff(want, pastFor(t, b)); diff != "" {
		t.Errorf("before the canary returns: %s", diff)
	}
	b.Read(cart, b.told(says{"p1": merged(ofShards(40, "1", "2"), ofShards(15, "3")), "p3": ofShards(4, "3")}))
	if diff := cmp.Diff(want, pastFor(t, b)); diff != "" {
		t.Errorf("after the canary has returned: %s", diff)
	}
}

// Whatever cannot be read and whichever pods come and go, the past is what the baseline's shards had
// done at one moment, before the canary had its first shard.
func TestPastIsOneMoment(t *testing.T) {
	t.Parallel()
	shards := []string{"1", "2", "3", "4", "5"}
	lengths := map[int]int{}
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		f := sharded()
		b := newBench(seed%2 == 0, f)
		var history []map[string]float64
		truth, base := map[string]float64{}, map[string]float64(nil)
		canary := map[types.UID]map[mapping.Key]float64{"p2": ofShards(0)}
		begins, begun, pods := rng.IntN(20), false, 2
		for step := range 25 {
			for i, s := range shards {
				truth[s] += float64(rng.IntN(1 + 2*i))
			}
			history = append(history, maps.Clone(truth))
			baseline := map[mapping.Key]float64{finishedKey(mapping.OK): 1}
			for s, n := range truth {
				baseline[mapping.Key{Figure: mapping.ShardFinished, Shard: s, Outcome: mapping.OK}] = n
			}
			if step >= begins {
				for uid := range canary {
					maps.Copy(canary[uid], ofShards(float64(step+1), "9"))
				}
				begun = begun || len(canary) > 0
			}
			if rng.IntN(5) == 0 {
				pods++
				uid := types.UID(fmt.Sprint("p", pods))
				canary[uid] = ofShards(0)
				b.facts.Pods = append(b.facts.Pods[:len(b.facts.Pods):len(b.facts.Pods)],
					Pod{UID: uid, Revision: "r2", Ready: true})
			}
			all := says{}
			if rng.IntN(4) > 0 || step == 0 {
				all["p1"] = baseline
				if base == nil {
					base = map[string]float64{}
					if seed%2 > 0 {
						base = maps.Clone(truth)
					}
				}
			}
			for uid, values := range canary {
				if all[uid] = maps.Clone(values); rng.IntN(4) == 0 {
					all[uid] = nil
				}
			}
			b.Read(cart, b.told(all))
			b.pass(15 * time.Second)
			past := pastFor(t, b)
			at := -1
			for i := range min(step, begins-1) + 1 {
				same := true
				for s, n := range history[i] {
					same = same && past[s] == max(0, n-base[s])
				}
				if same {
					at = i
				}
			}
			if len(past) > 0 && at < 0 {
				t.Fatalf("seed %d, step %d, the canary starts at %d: %v", seed, step, begins, past)
			}
			if step == 24 && begun {
				lengths[begins-1-at]++
			}
		}
	}
	if lengths[0] < 10 {
		t.Errorf("the past ends long before the canary starts: %v", lengths)
	}
}

// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

var cart = types.NamespacedName{Namespace: "shop", Name: "cart"}

// bench is a Service under test, with a clock.
type bench struct {
	*Counts
	now   time.Time
	facts Facts
}

func newBench(fresh bool, f Facts) *bench {
	b := &bench{now: time.Unix(1e9, 0), facts: f}
	b.Counts = NewCounts(func(types.NamespacedName) Facts { return b.facts }, func() time.Time { return b.now })
	b.Begin(cart, fresh)
	return b
}

func (b *bench) read(pod types.UID, entry bool, values map[mapping.Key]float64) {
	source := mapping.NeutralName
	if entry {
		source = mapping.EntryName
	}
	b.Read(cart, []scrape.Reading{{
		Target: scrape.Target{Pod: pod, Container: "0", Entry: entry}, At: b.now,
		Exposition: expose(source, 1e9, values),
	}})
}

// readBoth reads both pods of sharded at the same moment.
func (b *bench) readBoth(p1, p2 map[mapping.Key]float64) {
	b.Read(cart, []scrape.Reading{
		{Target: scrape.Target{Pod: "p1", Container: "0"}, At: b.now, Exposition: expose(mapping.NeutralName, 1e9, p1)},
		{Target: scrape.Target{Pod: "p2", Container: "0"}, At: b.now, Exposition: expose(mapping.NeutralName, 1e9, p2)},
	})
}

func (b *bench) pass(d time.Duration) { b.now = b.now.Add(d) }

func (b *bench) one(t *testing.T) Figures {
	t.Helper()
	all := slices.Collect(b.Figures())
	if len(all) != 1 {
		t.Fatalf("%d Services", len(all))
	}
	return all[0]
}

func has(f Figures, uid types.UID, figure string, why Reason) bool {
	for _, n := range f.NoData {
		n.Detail = ""
		if n == (NoData{Revision: uid, Figure: figure, Reason: why}) {
			return true
		}
	}
	return false
}

func entry(f mapping.Figure, code string) mapping.Key { return mapping.Key{Figure: f, Outcome: code} }

// merged joins the values of several helpers into one exposition.
func merged(all ...map[mapping.Key]float64) map[mapping.Key]float64 {
	out := map[mapping.Key]float64{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

func histogram(f, sum mapping.Figure, n float64) map[mapping.Key]float64 {
	out := map[mapping.Key]float64{{Figure: sum}: n * .02, {Figure: f, Bound: math.Inf(1)}: n}
	for _, b := range Bounds() {
		if b >= .025 {
			out[mapping.Key{Figure: f, Bound: b}] = n
		} else {
			out[mapping.Key{Figure: f, Bound: b}] = 0
		}
	}
	return out
}

func ratio(f float64) *float64 { return &f }

func handled(ok, failed float64) map[mapping.Key]float64 {
	return map[mapping.Key]float64{
		{Figure: mapping.Started, Entity: "Cart"}:                    ok + failed,
		{Figure: mapping.Finished, Entity: "Cart", Outcome: "ok"}:    ok,
		{Figure: mapping.Finished, Entity: "Cart", Outcome: "error"}: failed,
		{Figure: mapping.Shards, Entity: "Cart"}:                     5,
		{Figure: mapping.ShardFinished, Outcome: "ok", Shard: "7"}:   ok,
		{Figure: mapping.ShardSlow, Shard: "7"}:                      failed,
	}
}

func sharded() Facts {
	return Facts{
		Revisions: []Revision{
			{Revision: &lifecycle.Revision{UID: "r1", Name: "cart-1", Stateful: "pekko"}, Configuration: "cart", Required: ratio(.95), ClusterMembers: ratio(1)},
			{
				Revision: &lifecycle.Revision{UID: "r2", Name: "cart-2", Stateful: "pekko"}, Configuration: "cart", Required: ratio(.05), Timeout: time.Minute, ClusterMembers: ratio(0), ClusterShards: ratio(34),
			},
		},
		Pods: []Pod{
			{UID: "p1", Revision: "r1", Ready: true},
			{UID: "p2", Revision: "r2", Ready: true},
		},
	}
}

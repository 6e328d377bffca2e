// SPDX-License-Identifier: Apache-2.0

package gaterun

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// large is a Service with that many pods, each of which has counted requests of that many shards, as
// after many handovers.
func large(pods, shards int) attribution.Snapshot {
	now := func() time.Time { return time.Unix(1.8e9, 0) }
	key := types.NamespacedName{Namespace: "shop", Name: "cart"}
	facts := attribution.Facts{Revisions: []attribution.Revision{{Revision: &lifecycle.Revision{UID: "uid-1", Name: "cart-00001", Stateful: "pekko"}}, {Revision: &lifecycle.Revision{UID: "uid-2", Name: "cart-00002", Stateful: "pekko"}}}}
	random := rand.New(rand.NewPCG(1, 2))
	var readings []scrape.Reading
	for p := range pods {
		uid := types.UID(fmt.Sprintf("%08x-77d2-4c11-9f0e-%012x", random.Uint32(), random.Uint64()>>16))
		facts.Pods = append(facts.Pods, attribution.Pod{UID: uid, Revision: facts.Revisions[p%2].UID, Ready: true})
		values := map[mapping.Key]float64{}
		for s := range shards {
			shard := fmt.Sprint(s)
			for outcome, most := range map[string]int{mapping.OK: 100_000, mapping.Error: 1000, mapping.Timeout: 100} {
				values[mapping.Key{Figure: mapping.ShardFinished, Entity: "ShoppingCart", Outcome: outcome, Shard: shard}] = float64(1 + random.IntN(most))
			}
			values[mapping.Key{Figure: mapping.ShardSlow, Entity: "ShoppingCart", Shard: shard}] = float64(1 + random.IntN(5000))
		}
		values[mapping.Key{Figure: mapping.Started}], values[mapping.Key{Figure: mapping.Finished, Outcome: mapping.OK}] = 1e8, 1e8
		readings = append(readings, scrape.Reading{Target: scrape.Target{Pod: uid}, At: now(), Exposition: scrape.Exposition{
			Start: 1e9, Sources: []scrape.Source{{Name: mapping.NeutralName, Values: values}},
		}})
	}
	b := attribution.NewCounts(func(types.NamespacedName) attribution.Facts { return facts }, now)
	b.Begin(key, false)
	b.Read(key, readings)
	s, _ := b.Snapshot(key)
	return s
}

// 100 pods that have each counted all of 1,000 shards fit: 560 kB. The test uses a quarter of that.
func TestEvidenceOfManyPodsFits(t *testing.T) {
	t.Parallel()
	const parts = 4
	e := &evidence{Run: judge.Start(time.Unix(1.8e9, 0), nil), From: large(100/parts, 1000)}
	raw, err := pack(e)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw.Raw) > maxEvidence/parts {
		t.Errorf("%d bytes", len(raw.Raw))
	}
	if _, err := unpack(raw); err != nil {
		t.Errorf("%d bytes cannot be read again: %v", len(raw.Raw), err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/canary/placement"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// BenchmarkPlan plans shards of known load, a tenth of whose members has just come. The larger case has the most
// shards that a type can have; of the per-shard costs of the two cases, times-per-shard is the ratio.
func BenchmarkPlan(b *testing.B) {
	var perShard float64
	for _, size := range []struct{ shards, members int }{{10_000, 100}, {65_536, 200}} {
		b.Run(fmt.Sprintf("%dx%d", size.shards, size.members), func(b *testing.B) {
			in := grown(size.shards, size.members)
			for b.Loop() {
				if _, err := placement.Assign(in); err != nil {
					b.Fatal(err)
				}
			}
			one := float64(b.Elapsed().Nanoseconds()) / float64(b.N) / float64(size.shards)
			if perShard == 0 {
				perShard = one
			}
			b.ReportMetric(one/perShard, "times-per-shard")
		})
	}
}

// grown is a cluster with a tenth of its members new, and so without shards.
func grown(shards, members int) placement.Input {
	rng := rand.New(rand.NewPCG(11, 12))
	in := placement.Input{Shares: []lifecycle.Share{{Revision: "v1", Percent: 90}, {Revision: "v2", Percent: 10}}}
	old := members * 9 / 10
	for m := range members {
		in.Members = append(in.Members, placement.Member{
			Name:     fmt.Sprintf("pekko://shop@10.0.0.%d:7355", m),
			Revision: fmt.Sprintf("v%d", 1+m/old), Phase: placement.Up,
		})
	}
	for range shards {
		in.Owners = append(in.Owners, in.Members[rng.IntN(old)].Name)
		in.Load = append(in.Load, rng.ExpFloat64())
	}
	return in
}

// BenchmarkHeldPlan plans the most shards that a type can have, while an unreachable member owns all of them. The
// controller does so with each poll.
func BenchmarkHeldPlan(b *testing.B) {
	in := placement.Input{Shares: []lifecycle.Share{{Revision: "v1", Percent: 50}, {Revision: "v2", Percent: 50}}}
	for m := range 200 {
		in.Members = append(in.Members, placement.Member{
			Name:     fmt.Sprintf("pekko://shop@10.0.0.%d:7355", m),
			Revision: fmt.Sprintf("v%d", 1+m/100), Phase: placement.Up,
		})
	}
	in.Members[0].Phase = placement.Unreachable
	for range 65_536 {
		in.Owners = append(in.Owners, in.Members[0].Name)
	}
	for b.Loop() {
		if _, err := placement.Assign(in); err != nil {
			b.Fatal(err)
		}
	}
}

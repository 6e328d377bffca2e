package placement_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/canary/placement"
)

// BenchmarkPlan plans 10,000 shards of known load for 100 members, a tenth of which has just come.
func BenchmarkPlan(b *testing.B) {
	rng := rand.New(rand.NewPCG(11, 12))
	in := placement.Input{Shares: []placement.Share{{Revision: "v1", Percent: 90}, {Revision: "v2", Percent: 10}}}
	for m := range 100 {
		in.Members = append(in.Members, placement.Member{Name: fmt.Sprintf("pekko://shop@10.0.0.%d:7355", m), Revision: fmt.Sprintf("v%d", 1+m/90), Phase: placement.Up})
	}
	for range 10_000 {
		in.Owners = append(in.Owners, in.Members[rng.IntN(90)].Name)
		in.Load = append(in.Load, rng.ExpFloat64())
	}
	for b.Loop() {
		if _, err := placement.New(in); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHeldPlan plans the most shards that a type can have, while an unreachable member owns all of them. The controller does so
// with each poll.
func BenchmarkHeldPlan(b *testing.B) {
	in := placement.Input{Shares: []placement.Share{{Revision: "v1", Percent: 50}, {Revision: "v2", Percent: 50}}}
	for m := range 200 {
		in.Members = append(in.Members, placement.Member{Name: fmt.Sprintf("pekko://shop@10.0.0.%d:7355", m), Revision: fmt.Sprintf("v%d", 1+m/100), Phase: placement.Up})
	}
	in.Members[0].Phase = placement.Unreachable
	for range 65_536 {
		in.Owners = append(in.Owners, in.Members[0].Name)
	}
	for b.Loop() {
		if _, err := placement.New(in); err != nil {
			b.Fatal(err)
		}
	}
}

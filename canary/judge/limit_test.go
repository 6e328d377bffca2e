// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"os"
	"testing"
	"time"
)

// A canary that is no worse than its baseline does not fail for a limit because its bad requests come in
// clusters. With independent requests assumed, up to 32 % did.
func TestLimitOfClusters(t *testing.T) {
	t.Parallel()
	for _, c := range clusteredWorlds {
		for _, limit := range []float64{0.02, 0.05} {
			for _, known := range []time.Duration{0, 10 * time.Minute, 2 * time.Hour} {
				if known > 0 && os.Getenv("CLUSTER_RUNS") == "" {
					continue
				}
				w := base(c.world)
				w.history = known
				f := w.figures(unhurried().withLimit(limit), manyWorlds(t), firstSeed())
				t.Logf("%-36s limit %g %-8s %s", c.name, limit, known, f)
				if share, most := float64(len(f.fails))/float64(f.runs), 0.05; share > most+(outcome{runs: f.runs}).tolerance(most) {
					t.Errorf("%s, limit %g, %s of history: failed in %.3f of the runs", c.name, limit, known, share)
				}
			}
		}
	}
}

// Pods that differ as long as they live do not fail a healthy canary, unless its only pod is on the slow
// node and no other pod has been there: then nothing tells the two apart.
func TestPodsThatDiffer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		world
	}{
		{"1 of 2, sigma 0.5", world{pods: 2, canary: 1, rate: 0.01, sigma: 0.5}},
		{"1 of 3, sigma 0.5", world{pods: 3, canary: 1, rate: 0.01, sigma: 0.5}},
		{"1 of 4, sigma 0.5", world{pods: 4, canary: 1, rate: 0.01, sigma: 0.5}},
		{"1 of 5, sigma 0.5", world{pods: 5, canary: 1, rate: 0.01, sigma: 0.5}},
		{"1 of 10, sigma 0.5", world{pods: 10, canary: 1, rate: 0.01, sigma: 0.5}},
		{"1 of 10, a node with 5 times the odds", world{pods: 10, canary: 1, rate: 0.01, node: 5}},
		{"2 of 20, a node with 5 times the odds", world{pods: 20, canary: 2, rate: 0.01, node: 5}},
		{"5 of 20, a node with 5 times the odds", world{pods: 20, canary: 5, rate: 0.01, node: 5}},
		{"1 of 10, a node with 30 times the odds", world{pods: 10, canary: 1, rate: 0.01, node: 30}},
	} {
		for _, known := range []time.Duration{0, 2 * time.Hour} {
			if known > 0 && os.Getenv("CLUSTER_RUNS") == "" {
				continue
			}
			w := base(c.world)
			w.history = known
			f := w.figures(unhurried(), manyWorlds(t), firstSeed())
			t.Logf("%-36s %-8s %s", c.name, known, f)
			most := 0.05
			if c.canary == 1 && c.node > 0 {
				most = 0.1
			}
			if share := float64(len(f.fails)) / float64(f.runs); share > most+(outcome{runs: f.runs}).tolerance(most) {
				t.Errorf("%s, %s of history: failed in %.3f of the runs", c.name, known, share)
			}
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// named returns a world of the table.
func named(t *testing.T, group, name string) world {
	t.Helper()
	for _, w := range worlds() {
		if w.group == group && w.name == name {
			return w
		}
	}
	t.Fatalf("there is no world %s: %s", group, name)
	return world{}
}

// Without text, a reading has the same values, and a run that is stored and resumed at every step ends the same way.
func TestTheShortCutChangesNothing(t *testing.T) {
	t.Parallel()
	for _, w := range []world{
		named(t, "errors", "1 → 5 %"),
		named(t, "client errors", "429 to half"),
		named(t, "sharded", "0.1 → 5 %"),
		named(t, "restarts", "one of the canary's pods restarts every minute, sharded"),
		named(t, "clocks", "the baseline's nodes step 5 s every 30 s"),
	} {
		w.before = 5 * time.Minute
		short, err := player{seed: 7, rivals: true}.once(t.Context(), w, 1)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := player{seed: 7, rivals: true, whole: true}.once(t.Context(), w, 1)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(short, whole) {
			t.Errorf("%s: %+v without text, %+v with", w.name, short, whole)
		}
	}
}

// What happens in a world does not depend on what is made of it.
func TestNoWorldSeesTheJudge(t *testing.T) {
	t.Parallel()
	w := named(t, "errors", "1 % on both sides, 33 a second, 30 min")
	w.before = time.Minute
	first, err := player{seed: 7, rivals: true}.once(t.Context(), w, 1)
	if err != nil {
		t.Fatal(err)
	}
	w.gate = lasts(10 * time.Minute)
	other, err := player{seed: 7, rivals: true}.once(t.Context(), w, 1)
	if err != nil {
		t.Fatal(err)
	}
	if first.minutes == other.minutes || !reflect.DeepEqual(first.others, other.others) {
		t.Errorf("%+v, and %+v", first, other)
	}
}

// Every world of the table can be played: around the split, both sides have requests.
func TestEveryWorldIsPlayed(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for i, w := range worlds() {
		id := w.group + ": " + w.name
		if known[id] || w.group == "" || w.name == "" {
			t.Errorf("%q is not the name of one world", id)
		}
		known[id] = true
		w.before = 40 * time.Second
		s := newScene(w.withDefaults(), rand.New(rand.NewPCG(7, uint64(i))), i%10 == 0)
		if err := s.until(61); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		for _, one := range []side{baseline, canary} {
			if n := s.gate[one].now.requests; n == 0 && !strings.Contains(id, "hangs") && !strings.Contains(id, "long requests") {
				t.Errorf("%s: %s had no request", id, names[one])
			}
		}
	}
}

// What the gateway, the Route and the placement plan make of the canary's share decides whether it may pass.
func TestShareOfTheCanary(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]verdict.Verdict{
		"30 % end as 503 before the canary's pods":                                       verdict.Inconclusive,
		"30 % end as 503 before the canary's pods, sharded":                              verdict.Inconclusive,
		"sticky clients, the canary has 14 of 20 %":                                      verdict.Inconclusive,
		"sticky clients, the canary has 14 of 20 %; tooLow: Warn":                        verdict.Warn,
		"requests to the canary take 60 s; timeout 6 min":                                verdict.Pass,
		"requests take 60 s, sharded with a plan":                                        verdict.Pass,
		"sharded, entry 5 %, handled a third":                                            verdict.Pass,
		"sharded with a plan, traffic differs by a sigma of 1.5 and changes by one of 1": verdict.Pass,
		"sharded with a plan, half of its moves are not made":                            verdict.Inconclusive,
	} {
		w := named(t, "exposure", name)
		w.before = 5 * time.Minute
		for number := range uint64(2) {
			got, err := player{seed: 7}.once(t.Context(), w, number)
			if err != nil {
				t.Fatal(err)
			}
			if mismatch := slices.Contains(got.reasons, string(verdict.ExposureMismatch)); got.verdict != want || mismatch != (want != verdict.Pass) {
				t.Errorf("%s: %s %v, want %s: %s", name, got.verdict, got.reasons, want, got.message)
			}
		}
	}
}

// manyRuns returns how often a world is played: once, unless WORLD_RUNS is set.
func manyRuns() int {
	runs, err := strconv.Atoi(os.Getenv("WORLD_RUNS"))
	if err != nil {
		return 1
	}
	return runs
}

// A healthy canary gets what it should get, whatever its share and the traffic are. docs/lab/judging.md has the figures:
// WORLD_RUNS=200 WORLD_SEED=101 go test ./test/worlds -run TestHealthyCanariesGetTheirShare -v
func TestHealthyCanariesGetTheirShare(t *testing.T) {
	t.Parallel()
	var all []world
	for _, rps := range []float64{33, 100, 1000} {
		for percent, pods := range map[int64][2]int{5: {19, 1}, 10: {9, 1}, 20: {8, 2}, 50: {5, 5}} {
			all = append(all, world{name: fmt.Sprintf("%v a second, %d %%", rps, percent), rps: rps, percent: percent, pods: pods})
		}
	}
	all = append(all,
		world{name: "sharded with a plan, 10 %", shards: 100, planned: true},
		world{name: "sharded with a plan, 10 %, traffic differs by a sigma of 1", shards: 100, planned: true, uneven: 1},
		world{name: "sharded with a plan, 10 %, 33 a second", shards: 100, planned: true, rps: 33},
		world{name: "sharded, 10 %", shards: 100},
		world{name: "sharded, 5 %, handled a third", percent: 5, owns: 1. / 3, pods: [2]int{2, 1}, shards: 100},
	)
	seed, err := strconv.ParseUint(os.Getenv("WORLD_SEED"), 10, 64)
	if err != nil {
		seed = 7
	}
	for _, w := range all {
		if manyRuns() == 1 && w.rps > 100 {
			continue // takes a second
		}
		w.before = time.Minute
		r, err := player{seed: seed, runs: manyRuns(), parallel: 2}.play(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		mismatches := 0
		for _, o := range r.outcomes {
			if slices.Contains(o.reasons, string(verdict.ExposureMismatch)) {
				mismatches++
			}
		}
		_, minutes := r.medians()
		t.Logf("%-60s %3d of %d are ExposureMismatch, %d pass, after %.1f min", w.name, mismatches, len(r.outcomes), r.count(ours, verdict.Pass), minutes)
		if 100*mismatches > len(r.outcomes) {
			t.Errorf("%s: %d of %d are ExposureMismatch", w.name, mismatches, len(r.outcomes))
		}
	}
}

func TestWilson(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n, of int
		want  string
	}{{9, 200, "4.5 [2.4–8.3]"}, {0, 100, "0 [≤ 3.7]"}, {100, 100, "100 [96.3–100]"}} {
		if got := interval(c.n, c.of); got != c.want {
			t.Errorf("%d of %d: %s, want %s", c.n, c.of, got, c.want)
		}
	}
}

func TestTheTableIsReplaced(t *testing.T) {
	t.Parallel()
	page := fmt.Sprintf("a\n%s\nold\n%s\nb\n", begins, ends)
	got, err := replaced(page, "new\n")
	if want := strings.Replace(page, "old", "new", 1); err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := replaced("a\n", "new\n"); err == nil {
		t.Error("a page without marks was written")
	}
}

// What hits both sides, or a node, does not fail a healthy canary, and a pod that hides what it does does not pass.
func TestPodsThatCrashOrHide(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		group, name string
		want        verdict.Verdict
	}{
		{"restarts", "all pods crash for a minute, because what they need is away", verdict.Pass},
		{"sharded", "one of the canary's two pods is slow and exports nothing", verdict.Inconclusive},
	} {
		w := named(t, c.group, c.name)
		w.before = 5 * time.Minute
		for number := range uint64(2) {
			got, err := player{seed: 7}.once(t.Context(), w, number)
			if err != nil {
				t.Fatal(err)
			}
			if got.verdict != c.want {
				t.Errorf("%s: %s %v, want %s: %s", c.name, got.verdict, got.reasons, c.want, got.message)
			}
		}
	}
}

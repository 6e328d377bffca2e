// SPDX-License-Identifier: Apache-2.0

package model

import (
	"os"
	"sync"
	"testing"
	"time"
)

// bounds are those of a search that must find no violation.
type bounds struct {
	name   string
	config Config
}

// small bounds take some seconds in all.
var small = []bounds{
	{"two slots", Config{Slots: 2, Positions: 4, Revisions: [2]int8{1, 3}, Crashes: 1, Losses: 1, Late: 1}},
	{"three slots", Config{Slots: 3, Positions: 5, Revisions: [2]int8{1, 4}, Crashes: 1, Losses: 1}},
	{"edits", Config{Slots: 2, Positions: 3, Revisions: [2]int8{1, 2}, Losses: 1, Edits: 1}},
	{"deletes", Config{Slots: 2, Positions: 4, Revisions: [2]int8{1, 2}, Losses: 1, Late: 1, Deletes: true}},
	{"slow", Config{Slots: 2, Positions: 3, Revisions: [2]int8{1, 1}, Slow: true}},
}

// full bounds take up to some minutes each.
var full = []bounds{
	{"two slots", Config{Slots: 2, Positions: 6, Revisions: [2]int8{2, 4}, Crashes: 1, Losses: 1}},
	{"two slots, other subject", Config{Slots: 2, Positions: 6, Revisions: [2]int8{3, 3}, Crashes: 1, Losses: 1}},
	{"two slots, late", Config{Slots: 2, Positions: 5, Revisions: [2]int8{2, 3}, Crashes: 1, Losses: 1, Late: 1}},
	{"two slots, two losses", Config{Slots: 2, Positions: 4, Revisions: [2]int8{1, 3}, Crashes: 1, Losses: 2, Late: 1}},
	{"three slots", Config{Slots: 3, Positions: 6, Revisions: [2]int8{2, 4}, Crashes: 1, Losses: 1}},
	{"three slots, longer", Config{Slots: 3, Positions: 7, Revisions: [2]int8{3, 4}, Losses: 1}},
	{"three slots, late", Config{Slots: 3, Positions: 6, Revisions: [2]int8{2, 4}, Losses: 1, Late: 1}},
	{"edits", Config{Slots: 2, Positions: 4, Revisions: [2]int8{1, 3}, Crashes: 1, Losses: 1, Edits: 1}},
	{"deletes", Config{Slots: 2, Positions: 5, Revisions: [2]int8{2, 3}, Losses: 1, Late: 1, Deletes: true}},
	{"slow", Config{Slots: 2, Positions: 3, Revisions: [2]int8{1, 1}, Crashes: 1, Losses: 1, Slow: true}},
	{"slow, three positions", Config{Slots: 2, Positions: 3, Revisions: [2]int8{1, 2}, Slow: true}},
}

func TestProtocol(t *testing.T) {
	var mu sync.Mutex
	reached := map[string]int{}
	t.Run("bounds", func(t *testing.T) {
		for _, b := range small {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				if testing.Short() {
					b.config.Positions--
				}
				r := holds(t, b.config)
				mu.Lock()
				defer mu.Unlock()
				for what, n := range r.Reached {
					reached[what] += n
				}
			})
		}
	})
	// A model in which nothing happens violates nothing.
	for _, what := range []string{
		"somebody edits slot {n}", "the orphaned append of position {n} arrives", "the orphaned checkpoint of subject {n} arrives",
		"{p} appends a change of subject 0", "{p} appends a change of subject 1", "{p} appends changes of both subjects",
		"the append of {p} arrives", "{p} writes position {n}", "{p} hears of a conflict at position {n}",
		"{p} gives up waiting for position {n}, which never arrives", "{p} gives up waiting for position {n}, which is under way",
		"{p} gives up waiting for position {n}, which is written", "{p} gives up waiting for position {n}, which is refused",
		"{p} finds its append in slot {n}", "{p} does not find its append in slot {n}",
		"{p} reads slot {n}", "{p} handles what it read of slot {n}", "{p} sees position {n}", "{p} sees the entry of subject {n}",
		"{p} starts over", "{p} crashes", "{p} crashes with an append under way", "{p} sends a checkpoint of subject {n}",
		"{p} sends a checkpoint of subject {n}, which arrives later", "{p} reads the entry of subject {n} after a conflict",
		"{p} deletes the entry of subject {n}",
	} {
		if reached[what] == 0 {
			t.Errorf("never happens: %s", what)
		}
	}
}

// TestProtocolFully runs the full bounds if MODEL_FULL=1 is set.
func TestProtocolFully(t *testing.T) {
	if os.Getenv("MODEL_FULL") != "1" {
		t.Skip("takes long; to run it, set MODEL_FULL=1")
	}
	for _, b := range full {
		t.Run(b.name, func(t *testing.T) { holds(t, b.config) })
	}
}

// TestRingFirst shows that a process may also start from two snapshots, if it reads the entries after the ring: a later checkpoint
// is just adopted.
func TestRingFirst(t *testing.T) {
	t.Parallel()
	holds(t, Config{Slots: 2, Positions: 4, Revisions: [2]int8{1, 3}, Losses: 1, Broken: RingFirst})
}

// holds asserts that a search finds no violation.
func holds(t *testing.T, c Config) Result {
	t.Helper()
	began := time.Now()
	r, err := Run(c, 60_000_000)
	t.Logf("%d states, depth %d, in %v", r.States, r.Depth, time.Since(began).Round(time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if r.Violation != None {
		t.Fatal(r)
	}
	return r
}

// TestBrokenRules asserts that each rule is needed, and that the oracle notices its absence.
func TestBrokenRules(t *testing.T) {
	usual := Config{Slots: 2, Positions: 5, Revisions: [2]int8{1, 4}, Crashes: 1, Losses: 1, Late: 1}
	forced := Config{Slots: 2, Positions: 4, Revisions: [2]int8{2, 2}}
	deletes := Config{Slots: 2, Positions: 4, Revisions: [2]int8{2, 2}, Losses: 1, Late: 1, Deletes: true}
	for _, test := range []struct {
		broken Rule
		bounds Config
		wanted Violation
		// A violation that does not count.
		ignored Violation
	}{
		{broken: NoCarry, bounds: usual, wanted: Lost},
		{broken: CarryOutdated, bounds: usual, wanted: Resurrected},
		{broken: NoPrecondition, bounds: usual, wanted: Fork},
		{broken: UnfoldedVersion, bounds: usual, wanted: Fork},
		{broken: FoldWithGaps, bounds: usual, wanted: Disagreement},
		{broken: FoldWithGaps, bounds: usual, wanted: Fork, ignored: Disagreement},
		{broken: SkipCompare, bounds: usual, wanted: Fork},
		{broken: TimeoutIsCommitted, bounds: usual, wanted: Lost},
		{broken: AnyAttempt, bounds: usual, wanted: Lost},
		{broken: CheckpointUncommitted, bounds: usual, wanted: Uncommitted},
		{broken: CheckpointForced, bounds: usual, wanted: Backwards},
		{broken: CheckpointForced, bounds: forced, wanted: Lost, ignored: Backwards},
		{broken: CheckpointAssumed, bounds: usual, wanted: Lost},
		{broken: EntriesFirst, bounds: usual, wanted: Fork},
		{broken: DeleteUnconfirmed, bounds: deletes, wanted: Lost},
		{broken: ChangeFinished, bounds: deletes, wanted: Lost},
		{broken: CheckpointRecreates, bounds: deletes, wanted: Resurrected},
		{broken: FoldDead, bounds: deletes, wanted: Resurrected},
	} {
		name := test.broken.String()
		if test.ignored != None {
			name += " up to a " + test.wanted.String()
		}
		t.Run(name, func(t *testing.T) {
			c := test.bounds
			c.Broken, c.Ignore = test.broken, test.ignored
			began := time.Now()
			r, err := Run(c, 4_000_000)
			t.Logf("%v\nin %v", r, time.Since(began).Round(time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}
			if r.Violation != test.wanted {
				t.Fatalf("found %v, not %v", r.Violation, test.wanted)
			}
		})
	}
}

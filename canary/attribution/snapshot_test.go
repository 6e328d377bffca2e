// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
)

// handedOver returns a snapshot as another process receives it.
func handedOver(t *testing.T, s Snapshot) Snapshot {
	t.Helper()
	content, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var out Snapshot
	if err := json.Unmarshal(content, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// successor returns another process that reads the same Service.
func (b *bench) successor() *bench {
	next := &bench{now: b.now, facts: b.facts}
	next.Counts = NewCounts(func(types.NamespacedName) Facts { return next.facts }, func() time.Time { return next.now })
	next.Begin(cart, false)
	return next
}

func since(t *testing.T, b *bench, from Snapshot) Delta {
	t.Helper()
	d, ok := b.Since(cart, from)
	if !ok {
		t.Fatal("no snapshot")
	}
	return d
}

func TestSince(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	b.readBoth(handled(10, 1), handled(20, 2))
	from, _ := b.Snapshot(cart)
	b.readBoth(handled(13, 1), handled(25, 4))
	want := map[string]float64{"ok": 5, "error": 2}
	got := since(t, b, from)
	if diff := cmp.Diff(want, got.Revisions["r2"].Finished); diff != "" || got.LostPods != 0 {
		t.Errorf("%d lost, %s", got.LostPods, diff)
	}
	if s := got.Revisions["r2"].Shards[ShardKey{Shard: "7"}]; s.OK != 5 {
		t.Errorf("by shard: %+v", s)
	}
	// It survives a round trip through JSON.
	again := since(t, b, handedOver(t, from))
	if diff := cmp.Diff(got.Revisions, again.Revisions); diff != "" {
		t.Error(diff)
	}
	if d := since(t, b, got.To); d.Revisions["r2"].Finished["ok"] != 0 {
		t.Errorf("%+v", d)
	}
}

func TestAnotherProcessGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	b.readBoth(handled(10, 1), handled(20, 2))
	snapshot, _ := b.Snapshot(cart)
	from := handedOver(t, snapshot)

	next := b.successor()
	if _, ok := next.Since(cart, from); ok {
		t.Fatal("a snapshot without readings")
	}
	next.pass(time.Minute)
	next.readBoth(handled(12, 1), handled(30, 5))
	d := since(t, next, from)
	if diff := cmp.Diff(map[string]float64{"ok": 10, "error": 3}, d.Revisions["r2"].Finished); diff != "" ||
		d.LostPods != 0 {
		t.Errorf("%d lost, %s", d.LostPods, diff)
	}
	if s := d.Revisions["r2"].Shards[ShardKey{Shard: "7"}]; s.OK != 10 {
		t.Errorf("by shard: %+v", s)
	}
	next.readBoth(handled(12, 1), handled(31, 5))
	if d := since(t, next, d.To); d.Revisions["r2"].Finished["ok"] != 1 || d.Revisions["r1"].Finished["ok"] != 0 {
		t.Errorf("%+v", d.Revisions)
	}
}

func TestUnseenIntervalIsReported(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*bench)
		// container is that of the second pod afterwards.
		container string
		second    map[mapping.Key]float64
		err       error
		ok        float64
		lost      int
	}{
		"pod deleted":        {change: func(b *bench) { b.facts.Pods = b.facts.Pods[:1] }, lost: 1},
		"pod cannot be read": {err: errors.New("refused"), lost: 1},
		"pod restarted": {
			change: func(b *bench) { b.facts.Pods[1].Restarts = 1 }, container: "2",
			second: handled(3, 0), ok: 3, lost: 1,
		},
		"nothing happened": {second: handled(20, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, container := newBench(true, sharded()), "0"
			if c.container != "" {
				container = c.container
			}
			exposed := func(p2 map[mapping.Key]float64) []scrape.Reading {
				return []scrape.Reading{
					{Target: scrape.Target{Pod: "p1", Container: "0"}, At: b.now, Exposition: expose(mapping.NeutralName, 0, handled(10, 1))},
					{Target: scrape.Target{Pod: "p2", Container: container}, At: b.now, Exposition: expose(mapping.NeutralName, 0, p2), Err: c.err},
				}
			}
			b.readBoth(handled(10, 1), handled(20, 2))
			from, _ := b.Snapshot(cart)
			next := b.successor()
			if c.change != nil {
				c.change(next)
				next.Begin(cart, false)
			}
			next.Read(cart, exposed(c.second))
			d := since(t, next, handedOver(t, from))
			if got := d.Revisions["r2"]; got.Finished["ok"] != c.ok || d.LostPods != c.lost {
				t.Errorf("ok %v, %d pods lost, want %v and %d", got.Finished["ok"], d.LostPods, c.ok, c.lost)
			}
			if c.change != nil && c.ok > 0 && d.Revisions["r2"].Restarts[RestartedOther] != 1 {
				t.Errorf("%v", d.Revisions["r2"].Restarts)
			}
			// A process that takes over much later cannot know.
			next.pass(2 * takeover)
			next.Read(cart, exposed(c.second))
			if d := since(t, next, from); d.LostPods != 2 {
				t.Errorf("%d more pods are lost", d.LostPods)
			}
		})
	}
}

// Whichever process reads, and however often that changes, the counts never exceed the truth, and lack
// only what no process could read.
func TestTotalsEqualTheTruthOverHandovers(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		w := newWorld(seed)
		start := func(fresh bool) *Counts {
			b := NewCounts(func(types.NamespacedName) Facts { return w.facts() }, func() time.Time { return w.now })
			b.Begin(cart, fresh)
			return b
		}
		counts := start(true)
		last, _ := counts.Snapshot(cart)
		total := map[types.UID]float64{}
		look := func() {
			d, ok := counts.Since(cart, last)
			if !ok {
				t.Fatalf("seed %d: no snapshot", seed)
			}
			for uid, tally := range d.Revisions {
				total[uid] += tally.Total()
			}
			last = handedOver(t, d.To)
		}
		for range 20 {
			for range w.rng.IntN(5) {
				counts.Read(cart, w.step())
			}
			counts.Read(cart, w.quiet())
			counts.Read(cart, w.quiet())
			look()
			if w.rng.IntN(3) == 0 {
				w.nobody = true
				for range w.rng.IntN(3) {
					w.step()
				}
				w.nobody = false
				counts = start(false)
				counts.Read(cart, w.quiet())
				look()
			}
		}
		for uid, got := range total {
			if truth := w.truth[uid]; got > truth || got < truth-w.unseen[uid] {
				t.Errorf("seed %d: %s counted %v; the truth is %v, of which %v could not be seen", seed, uid, got, truth,
					w.unseen[uid])
			}
		}
	}
}

func TestWrongSnapshotsAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	b.readBoth(handled(10, 1), handled(20, 2))
	s, _ := b.Snapshot(cart)
	whole, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	// Earlier releases compressed it.
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(whole); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	former := base64.StdEncoding.EncodeToString(packed.Bytes()[:packed.Len()/2])
	for name, content := range map[string]string{
		"number": "7", "not base64": `"?"`, "not packed": `"aGFsbG8="`, "truncated": `"` + former + `"`,
	} {
		var out Snapshot
		if err := json.Unmarshal([]byte(content), &out); err == nil || !strings.Contains(err.Error(), "what was counted") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, key := range []string{"", `["a"]`, `["a","b","c","d","x"]`, "{}"} {
		if _, err := keyed(map[string]float64{key: 1}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", key)) {
			t.Errorf("%s: %v", key, err)
		}
	}
	if back, err := keyed(named(handled(3, 1))); err != nil || !maps.Equal(back, handled(3, 1)) {
		t.Errorf("%v, %v", back, err)
	}
}

// What a pod did before the first process knew its owner is unknown to the next process, and nothing of
// that earlier time counts as new.
func TestPodNotVerifiedByTheFirstProcess(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	all := b.facts.Pods
	b.facts.Pods, b.facts.Claimed = all[:1], []types.UID{"p2", "stranger"}
	b.Begin(cart, false)
	b.read("p1", false, handled(10, 1))
	from, _ := b.Snapshot(cart)
	next := b.successor()
	next.facts.Pods, next.facts.Claimed = all, nil
	next.facts.Pods[1].Restarts = 1
	next.Begin(cart, false)
	next.readBoth(handled(12, 1), handled(1e6, 5e4))
	d := since(t, next, handedOver(t, from))
	if got := d.Revisions["r2"]; got.Finished["ok"] != 0 || got.Finished["error"] != 0 ||
		got.Restarts[RestartedOther] != 0 || d.LostPods != 1 {
		t.Errorf("finished %v, restarts %v, %d pods lost", got.Finished, got.Restarts, d.LostPods)
	}
	if got := d.Revisions["r1"].Finished["ok"]; got != 2 {
		t.Errorf("the verified pod finished %v", got)
	}
}

// A pod that seems to go and comes back, as when its labels are changed and changed back, was counted already.
func TestReturningPodIsNotCountedTwice(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	all := b.facts.Pods
	b.readBoth(handled(10, 0), handled(5, 3))
	for range 2 {
		b.pass(time.Minute)
		b.facts.Pods = all[:1]
		b.Read(cart, nil)
		b.pass(time.Minute)
		b.facts.Pods = all
		b.readBoth(handled(10, 0), handled(5, 3))
	}
	b.pass(time.Minute)
	b.readBoth(handled(10, 0), handled(6, 3))
	if diff := cmp.Diff(map[string]float64{mapping.OK: 6, mapping.Error: 3, mapping.Timeout: 0},
		b.one(t).Revisions[1].Handled); diff != "" {
		t.Error(diff)
	}
}

// The next reader knows a process by its container, and by counters that go on, not by its start time.
func TestAClockThatStepsIsNoRestart(t *testing.T) {
	t.Parallel()
	counted := func(start float64, container string, ok, failed float64) counters {
		return counters{
			Read: true, Source: "s", Start: start, Container: container,
			Values: map[mapping.Key]float64{finishedKey("ok"): ok, finishedKey("error"): failed},
		}
	}
	for name, c := range map[string]struct {
		was, is counters
		want    bool
	}{
		"clock stepped":                       {counted(100, "a", 10, 5), counted(105, "a", 12, 5), false},
		"clock stepped, container unknown":    {counted(100, "", 10, 5), counted(95, "", 12, 5), false},
		"restarted and overtook":              {counted(100, "a", 10, 5), counted(200, "b", 12, 5), true},
		"restarted, told later":               {counted(100, "a", 10, 5), counted(200, "a", 12, 1), true},
		"restarted, container unknown":        {counted(100, "", 10, 5), counted(200, "", 12, 1), true},
		"restarted while the clock stepped":   {counted(100, "a", 10, 5), counted(101, "b", 2, 1), true},
		"another container, same process":     {counted(100, "a", 10, 5), counted(100, "b", 12, 5), false},
		"no start times, same container":      {counted(0, "a", 10, 5), counted(0, "a", 12, 6), false},
		"no start times, another container":   {counted(0, "a", 10, 5), counted(0, "b", 12, 6), true},
		"no start times, container unknown":   {counted(0, "", 10, 5), counted(0, "", 12, 4), true},
		"no start times, nothing ever fell":   {counted(0, "", 10, 5), counted(0, "", 12, 5), false},
		"same start, one value that is false": {counted(100, "a", 10, 5), counted(100, "a", 9, 6), false},
	} {
		if got := c.is.restarted(c.was); got != c.want {
			t.Errorf("%s: restarted is %v", name, got)
		}
	}
}

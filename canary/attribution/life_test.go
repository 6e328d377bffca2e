// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// lives is a Service whose pods run, of which nothing is read.
func lives(start time.Time) *bench {
	f := sharded()
	for i := range f.Pods {
		f.Pods[i].Running, f.Pods[i].Began, f.Pods[i].Restarts = true, start.Add(-time.Hour), 4
	}
	return newBench(false, f)
}

// update changes the facts as a watch does. No other process sees the change of a pod.
func (b *bench) update(change func(f *Facts)) {
	f := b.facts
	f.Pods = append([]Pod(nil), f.Pods...)
	change(&f)
	b.facts = f
	b.Read(cart, nil)
}

func (b *bench) livesSince(t *testing.T, from Snapshot) map[types.UID]Life {
	t.Helper()
	d, ok := b.Since(cart, from)
	if !ok {
		t.Fatal("nothing is known")
	}
	return d.Lives
}

// How pods fare is what happened between two moments, by the same process or another.
func TestLivesOfPods(t *testing.T) {
	t.Parallel()
	start := time.Unix(1e9, 0)
	began := start.Add(-time.Hour)
	for name, c := range map[string]struct {
		change func(f *Facts)
		// took is how long before the end of the window it happened.
		took time.Duration
		want map[types.UID]Life
	}{
		"nothing": {func(*Facts) {}, 0, nil},
		"two restarts": {
			func(f *Facts) { f.Pods[1].Restarts = 6 }, 0,
			map[types.UID]Life{"p2": {Revision: "r2", Began: began, Ran: time.Minute, Restarts: 2}},
		},
		"a crash loop": {
			func(f *Facts) { f.Pods[1].CrashLoop = true }, 0,
			map[types.UID]Life{"p2": {Revision: "r2", Began: began, Ran: time.Minute, CrashLoop: true}},
		},
		"a drained node": {func(f *Facts) { f.Pods[1].Restarts, f.Pods[1].Disrupted = 6, true }, 0, nil},
		"it failed": {
			func(f *Facts) { f.Pods[1].Running, f.Pods[1].Failed = false, true }, 0,
			map[types.UID]Life{"p2": {Revision: "r2", Began: began, Ran: time.Minute, Restarts: 1}},
		},
		"it was evicted": {
			func(f *Facts) { f.Pods[1].Running, f.Pods[1].Disrupted = false, true }, 0,
			map[types.UID]Life{"p2": {Revision: "r2", Began: began}},
		},
		"it is not ready": {func(f *Facts) { f.Pods[1].Ready = false }, 0, nil},
		"it is deleted": {
			func(f *Facts) { f.Pods[1].Running = false }, 0,
			map[types.UID]Life{"p2": {Revision: "r2", Began: began}},
		},
		"it is gone": {
			func(f *Facts) { f.Pods = f.Pods[:1] }, 20 * time.Second,
			map[types.UID]Life{"p2": {Revision: "r2", Began: began, Ran: 40 * time.Second}},
		},
		"another one came": {func(f *Facts) {
			f.Pods = append(f.Pods, Pod{
				UID: "p3", Revision: "r2", Running: true, Began: start.Add(45 * time.Second),
				Restarts: 1,
			})
		}, 10 * time.Second, map[types.UID]Life{"p3": {
			Revision: "r2", Began: start.Add(45 * time.Second),
			Ran: 15 * time.Second, Restarts: 1,
		}}},
		"one that was there before": {func(f *Facts) {
			f.Pods = append(f.Pods, Pod{UID: "p3", Revision: "r2", Running: true, Began: began, Restarts: 7})
			f.Claimed = nil
		}, 0, map[types.UID]Life{"p3": {Revision: "r2", Began: began, Ran: time.Minute}}},
	} {
		want := map[types.UID]Life{
			"p1": {Revision: "r1", Began: began, Ran: time.Minute}, "p2": {Revision: "r2", Began: began, Ran: time.Minute},
		}
		for uid, life := range c.want {
			want[uid] = life
		}
		b := lives(start)
		if name == "one that was there before" {
			b.facts.Claimed = []types.UID{"p3"}
			b.Begin(cart, false)
		}
		from, _ := b.Snapshot(cart)
		raw, err := json.Marshal(from)
		if err != nil {
			t.Fatal(err)
		}
		b.pass(time.Minute - c.took)
		b.update(c.change)
		b.pass(c.took)
		if diff := cmp.Diff(want, b.livesSince(t, from)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		var stored Snapshot
		if err := json.Unmarshal(raw, &stored); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, b.livesSince(t, stored)); diff != "" {
			t.Errorf("%s, stored: %s", name, diff)
		}
	}
}

// Another process that continues counts the same restarts, because the kubelet counts them. It does not know of a pod
// that failed before.
func TestLivesAfterATakeover(t *testing.T) {
	t.Parallel()
	start := time.Unix(1e9, 0)
	b := lives(start)
	from, _ := b.Snapshot(cart)
	next := lives(start)
	next.pass(time.Minute)
	next.facts.Pods = append([]Pod(nil), next.facts.Pods...)
	next.facts.Pods[0].Failed, next.facts.Pods[0].Running = true, false
	next.facts.Pods[1].Restarts = 5
	next.Begin(cart, false)
	next.readBoth(handled(1, 0), handled(1, 0))
	got := next.livesSince(t, from)
	want := map[types.UID]Life{
		"p1": {Revision: "r1", Began: start.Add(-time.Hour)},
		"p2": {Revision: "r2", Began: start.Add(-time.Hour), Ran: time.Minute, Restarts: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The exported count leaves out what a disruption caused, too, also later.
func TestDisruptedPodsDoNotCount(t *testing.T) {
	t.Parallel()
	b := lives(time.Unix(1e9, 0))
	b.update(func(f *Facts) { f.Pods[1].Restarts, f.Pods[1].Disrupted = 6, true })
	b.update(func(f *Facts) { f.Pods[1].Disrupted = false })
	if n := sum(b.one(t).Revisions[1].Restarts); n != 0 {
		t.Errorf("%v restarts", n)
	}
	b.update(func(f *Facts) { f.Pods[1].Restarts = 7 })
	if n := sum(b.one(t).Revisions[1].Restarts); n != 1 {
		t.Errorf("%v restarts", n)
	}
}

// A Revision's past is that of its pods that run.
func TestLived(t *testing.T) {
	t.Parallel()
	b := lives(time.Unix(1e9, 0))
	b.pass(time.Hour)
	b.update(func(f *Facts) {
		f.Pods = append(f.Pods, Pod{UID: "p3", Revision: "r1", Running: true, Restarts: 1},
			Pod{UID: "p4", Revision: "r1", Began: b.now, Restarts: 1})
	})
	s, _ := b.Snapshot(cart)
	if n, ran := s.Lived("r1"); n != 4 || ran != 2*time.Hour {
		t.Errorf("%d restarts in %s", n, ran)
	}
}

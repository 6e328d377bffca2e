// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// podless returns the facts of a Service that is scaled to zero.
func podless() Facts {
	f := sharded()
	f.Pods = nil
	return f
}

func TestNothingIsKeptOfAServiceWithoutPods(t *testing.T) {
	t.Parallel()
	b := newBench(false, podless())
	b.pass(time.Hour)
	b.Read(cart, nil)
	f := b.one(t)
	if len(b.services) != 0 || b.Health().Services != 1 || len(f.Revisions) != 2 || *f.Revisions[1].Required != .05 ||
		!has(f, "r2", "handled_requests_total", NotRead) {
		t.Errorf("%d are kept; %+v", len(b.services), f)
	}
	b.facts.Revisions[1].Required = ratio(.5)
	if f := b.one(t); *f.Revisions[1].Required != .5 {
		t.Errorf("after a change of the Route: %+v", f)
	}
	b.End(cart)
	if _, reads := b.Figure(cart); reads || b.Health().Services != 0 {
		t.Error("it is still known")
	}
}

// What a Service's first pods count happened since this process watches, whether the Service is new or not.
func TestFirstPodsAreCountedFromTheirStart(t *testing.T) {
	t.Parallel()
	for _, fresh := range []bool{true, false} {
		b := newBench(fresh, podless())
		b.pass(time.Hour)
		before, _ := b.Snapshot(cart)
		b.facts.Pods = sharded().Pods
		b.pass(time.Minute)
		b.readBoth(handled(30, 0), handled(10, 0))
		f := b.one(t)
		if f.Revisions[0].Handled["ok"] != 30 || math.Abs(*f.Revisions[1].Share-.25) > .001 {
			t.Errorf("fresh: %v: %+v", fresh, f.Revisions)
		}
		d, known := b.Since(cart, before)
		if tally := d.Revisions["r1"]; !known || tally.Total() != 30 || d.LostPods != 0 {
			t.Errorf("fresh: %v: since it had no pods: %+v", fresh, d)
		}
	}
}

// A Service keeps what its pods counted when it is scaled to zero, and is not read any more: time goes on, and
// Revisions go.
func TestServiceScaledToZero(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	for i := 1.0; i <= 8; i++ {
		b.pass(15 * time.Second)
		b.readBoth(handled(30*i, 0), handled(10*i, 0))
	}
	b.facts.Pods = nil
	b.pass(15 * time.Second)
	b.Read(cart, nil)
	if share := b.one(t).Revisions[1].Share; share == nil || math.Abs(*share-.25) > .001 {
		t.Errorf("the share is %v", share)
	}
	b.pass(ShareWindow)
	if f := b.one(t); f.Revisions[0].Handled["ok"] != 240 || !has(f, "r1", "handled_share_ratio", NoRequests) {
		t.Errorf("after the window: %+v", f)
	}
	b.facts.Revisions = b.facts.Revisions[1:]
	if f := b.one(t); len(f.Revisions) != 1 || len(b.services[cart].tallies) != 1 {
		t.Errorf("without the first Revision: %+v", f)
	}
}

// A window needs a point only where something changed, and says the same as one with a point for each reading.
func TestSharesNeedNoPointsAtRest(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	n := 0.0
	for i := range 200 {
		b.pass(15 * time.Second)
		if i%50 == 49 {
			n += 100
		}
		b.readBoth(handled(3*n, 0), handled(n, 0))
		want := ratio(.25)
		if since := time.Duration(i%50+1) * 15 * time.Second % (50 * 15 * time.Second); n == 0 || since >= ShareWindow {
			want = nil
		}
		if diff := cmp.Diff(want, b.one(t).Revisions[1].Share); diff != "" {
			t.Fatalf("after %d readings: %s", i+1, diff)
		}
	}
	if points := b.services[cart].split.points; len(points) > 2 {
		t.Errorf("%d points", len(points))
	}
}

// What a scrape of this process's own metrics costs with Services that sleep.
func BenchmarkFiguresOfSleepers(b *testing.B) {
	f := podless()
	f.Revisions = append(f.Revisions, Revision{Revision: &lifecycle.Revision{UID: "r0", Name: "cart-0"}, Configuration: "cart", Required: ratio(0)})
	for i := range f.Revisions {
		f.Revisions[i].Stateful = ""
	}
	c := NewCounts(func(types.NamespacedName) Facts { return f }, func() time.Time { return time.Unix(1e9, 0) })
	for i := range 1000 {
		c.Begin(types.NamespacedName{Namespace: "shop", Name: fmt.Sprintf("cart-%d", i)}, false)
	}
	b.ReportAllocs()
	for b.Loop() {
		for f := range c.Figures() {
			if len(f.Revisions) != 3 {
				b.Fatalf("%+v", f)
			}
		}
	}
}

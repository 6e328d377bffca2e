// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func root(uid, version string) Part {
	return Part{Name: "service", Version: version, Root: true, Owner: "uid-" + "x", Value: uid + version}
}

func part(version string) Part {
	return Part{Name: "route", Version: version, Owner: "uid-x", Value: version}
}

func versions(t *track) string {
	out := ""
	for _, u := range t.updates {
		out += u.part.Name[:1] + u.part.Version + " "
	}
	return out
}

func TestOnlyChangesAreKept(t *testing.T) {
	tr := newTrack("")
	now := time.Now()
	if fresh, _ := tr.add(root("a", "5"), now); !fresh {
		t.Error("the first state is not kept")
	}
	same := root("a", "5")
	same.Version = "6"
	if fresh, _ := tr.add(same, now); fresh {
		t.Error("a resync is kept")
	}
	if last, _ := tr.last("service"); last.Version != "6" {
		t.Errorf("the version stays %s", last.Version)
	}
	if fresh, _ := tr.add(root("b", "4"), now); fresh {
		t.Error("an older state is kept")
	}
	if fresh, _ := tr.add(Part{Name: "route"}, now); fresh {
		t.Error("the deletion of an unknown part is kept")
	}
	gone := root("a", "7")
	gone.Value = nil
	if fresh, _ := tr.add(gone, now); !fresh {
		t.Error("the deletion is not kept")
	}
}

func TestRouteArrivesBeforeItsService(t *testing.T) {
	tr := newTrack("")
	now := time.Now()
	tr.add(part("3"), now)
	tr.add(part("4"), now)
	if s := tr.steps(now); !s[1].orphan(tr.past) {
		t.Error("a Route without its Service is not an orphan")
	}
	tr.add(root("x", "2"), now)
	if got := versions(tr); got != "s2 r3 r4 " {
		t.Errorf("got %s", got)
	}
	if s := tr.steps(now); s[2].orphan(tr.past) || len(s) != 4 || len(s[3].Parts) != 2 {
		t.Errorf("steps %+v", s)
	}
	tr.add(root("x", "5"), now) // later updates of the Service keep their place
	if got := versions(tr); got != "s2 r3 r4 s5 " {
		t.Errorf("got %s", got)
	}
}

func TestFoldedUpdatesMoveIntoTheBase(t *testing.T) {
	tr := newTrack("")
	now := time.Now()
	tr.add(root("x", "1"), now)
	tr.add(part("2"), now)
	first, second := tr.updates[0].id, tr.updates[1].id
	tr.consume(map[uint64]bool{first: true})
	if len(tr.updates) != 1 || tr.base.parts()["service"].Version != "1" {
		t.Errorf("%+v", tr)
	}
	tr.consume(map[uint64]bool{second: true})
	gone := part("3")
	gone.Value = nil
	tr.add(gone, now)
	tr.consume(map[uint64]bool{tr.updates[0].id: true})
	if _, ok := tr.base.get("route"); ok {
		t.Error("a deleted part stays in the base")
	}
	if s := tr.steps(now); len(s) != 1 || s[0].id != 0 {
		t.Errorf("steps %+v", s)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	tr := newTrack("")
	merged := 0
	for i := range maxHistory + 10 {
		_, m := tr.add(part(fmt.Sprint(i+1)), time.Now())
		merged += m
	}
	if len(tr.updates) != maxHistory || merged != 10 || tr.base.parts()["route"].Version != "10" {
		t.Errorf("%d updates, %d merged, base %v", len(tr.updates), merged, tr.base.parts()["route"].Version)
	}
	tr.folding = true
	if _, m := tr.add(part("9999"), time.Now()); m != 0 {
		t.Error("updates were merged during a fold")
	}
}

func TestFillKeepsKnownParts(t *testing.T) {
	tr := newTrack("")
	tr.add(part("3"), time.Now())
	tr.fill(Parts{"route": part("9"), "service": root("x", "8")})
	if _, ok := tr.base.get("route"); ok || tr.base.parts()["service"].Version != "8" || !tr.filled ||
		!slices.Contains(tr.past, "uid-x") {
		t.Errorf("%+v", tr)
	}
}

func TestVolatilePartsEndWithTheLead(t *testing.T) {
	tr := newTrack("")
	now := time.Now()
	cluster := Part{Name: "cluster", Version: "1", Value: 1, Owner: "uid-x", Volatile: true}
	tr.add(root("x", "1"), now)
	tr.add(cluster, now)
	tr.consume(map[uint64]bool{tr.updates[0].id: true, tr.updates[1].id: true})
	cluster.Version, cluster.Value = "2", 2
	tr.add(cluster, now)
	tr.add(part("3"), now)
	tr.dropVolatile()
	if len(tr.updates) != 1 || len(tr.base) != 1 || tr.updates[0].part.Name != "route" {
		t.Errorf("%+v", tr)
	}
}

// The memory use of one Service does not grow with the size of its parts.
func TestHistoryIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	tr, merged := newTrack(""), 0
	for i := range 100 {
		p := part(fmt.Sprint(i + 1))
		p.Size = 100 << 10
		_, m := tr.add(p, time.Now())
		merged += m
	}
	if n := len(tr.updates); n != maxHistorySize/(100<<10) || merged != 100-n {
		t.Errorf("%d updates, %d merged", n, merged)
	}
	huge := part("1000")
	huge.Size = 2 * maxHistorySize
	if tr.add(huge, time.Now()); len(tr.updates) != 1 {
		t.Errorf("%d updates; the newest must be kept whatever its size", len(tr.updates))
	}
}

// The memory use of one fold does not grow with the number of parts.
func TestFoldedStatesAreBounded(t *testing.T) {
	t.Parallel()
	tr, now := newTrack(""), time.Now()
	for i := range 5000 {
		name := fmt.Sprint("domain/", i)
		tr.base.set(Part{Name: name, Version: "1", Value: i, Floating: true})
	}
	for i := range maxHistory {
		tr.add(Part{Name: fmt.Sprint("domain/", i), Version: fmt.Sprint(2 + i), Value: -i, Floating: true}, now)
	}
	parts := 0
	for _, s := range tr.steps(now) {
		parts += len(s.Parts)
	}
	if parts > maxStateParts+5000 || len(tr.updates) < minHistory {
		t.Errorf("%d parts in the states of %d updates", parts, len(tr.updates))
	}
}

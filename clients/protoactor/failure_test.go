// SPDX-License-Identifier: Apache-2.0

package protoactor

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// three is a cluster of two stable members and a canary, with a plan that gives the canary some shards. All shards are
// active.
func three(t *testing.T, percent int) (f *fleet, a, b, canary *node) {
	t.Helper()
	f = newFleet(t)
	a, b, canary = f.three(percent)
	return f, a, b, canary
}

func (f *fleet) three(percent int) (a, b, canary *node) {
	f.Helper()
	a, b, canary = f.start("stable"), f.start("stable"), f.start("canary")
	f.together()
	owner := split(percent, canary, a, b)
	f.controller.set(http.StatusOK, "", f.plan(owner))
	f.until("the plan", 5*time.Second, func() bool {
		return a.lookup.Version() > 0 && b.lookup.Version() > 0 && canary.lookup.Version() > 0
	})
	f.touch(b)
	f.owned(10*time.Second, owner)
	return a, b, canary
}

// split gives the canary the first shards, and divides the others.
func split(percent int, canary *node, stable ...*node) func(int) *node {
	return func(s int) *node {
		if s < percent {
			return canary
		}
		return stable[s%len(stable)]
	}
}

func TestOwnerKilledWhileItHandsOver(t *testing.T) {
	f, a, b, canary := three(t, 0)
	load := f.load()
	time.Sleep(200 * time.Millisecond)
	f.controller.set(http.StatusOK, "", f.plan(split(50, canary, a, b)))
	f.until("the first moves", 10*time.Second, func() bool { return f.moves() > 0 })
	a.kill()
	killed := time.Now()
	// The others learn it later, and first take its shards by the plan that they have: those of its Revision.
	time.Sleep(300 * time.Millisecond)
	f.expel(a)
	f.touch(b)
	f.owned(30*time.Second, split(50, canary, b))
	t.Logf("all shards were active %s after the kill; the lease is %s", time.Since(killed).Round(100*time.Millisecond), testLease)
	if took := time.Since(killed); took < testLease {
		t.Errorf("the shards of a killed member were active after %s, before the lease of %s had ended", took, testLease)
	}
	load.end()
}

// A member that is not Ready for a while is removed from the list, but still runs, as the Kubernetes provider has it.
func TestExpelledMemberStopsItsGrains(t *testing.T) {
	f, a, b, canary := three(t, 20)
	load := f.load()
	time.Sleep(100 * time.Millisecond)
	f.expel(a)
	f.owned(20*time.Second, func(s int) *node { return split(20, canary, b)(s) })
	load.end()
	if n := len(a.owned(t)); n != 0 {
		t.Errorf("the expelled member holds %d shards", n)
	}
}

// However often the plan changes before the last one is reached, and while members come and go, no grain is ever active
// twice.
func TestPlansThatChangeAllTheTime(t *testing.T) {
	f, a, b, canary := three(t, 0)
	load := f.load()
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	stable := []*node{a, b}
	for i := range 40 {
		switch i {
		case 10:
			stable = append(stable, f.start("stable"))
		case 20:
			stable = slices.DeleteFunc(stable, func(n *node) bool { return n == a })
			f.until("a member has left", 5*time.Second, func() bool { return a.lookup.Leave(t.Context()) == nil })
		}
		random.Shuffle(len(stable), func(i, j int) { stable[i], stable[j] = stable[j], stable[i] })
		f.controller.set(http.StatusOK, "", f.plan(split(random.IntN(101), canary, stable...)))
		time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond)
	}
	last := split(30, canary, stable...)
	f.controller.set(http.StatusOK, "", f.plan(last))
	f.owned(30*time.Second, last)
	load.end()
	if load.unanswered.Load() > 0 {
		t.Errorf("%d requests had no answer", load.unanswered.Load())
	}
	t.Logf("%d moves", f.moves())
}

func TestRestartedMember(t *testing.T) {
	f, a, b, canary := three(t, 20)
	_, port, err := a.cluster.ActorSystem.GetHostPort()
	if err != nil {
		t.Fatal(err)
	}
	load := f.load()
	a.kill()
	f.expel(a)
	again := f.startAt("stable", port)
	f.together()
	f.owned(30*time.Second, split(20, canary, again, b))
	load.end()
	f.touch(again)
	f.owned(10*time.Second, split(20, canary, again, b))
}

// Nothing waits for the lease of a member that leaves in order. The lease is one that no busy machine needs for the
// rest.
func TestMemberLeaves(t *testing.T) {
	f := newFleet(t)
	f.lease = 5 * time.Minute
	a, b, canary := f.three(20)
	load := f.load()
	time.Sleep(100 * time.Millisecond)
	begun := time.Now()
	if err := a.lookup.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(a.owned(t)); n != 0 {
		t.Errorf("a member that has left holds %d shards", n)
	}
	f.owned(time.Minute, split(20, canary, b))
	if took := time.Since(begun); took > f.lease {
		t.Errorf("the shards of a member that left in order were active after %s; nothing had to wait for the lease of %s", took, f.lease)
	}
	load.end()
	if load.unanswered.Load() > 0 {
		t.Errorf("%d requests had no answer", load.unanswered.Load())
	}
	a.leave()
	f.together()
	f.touch(b)
}

// owned returns the shards that a member serves.
func (n *node) owned(t *testing.T) []string {
	t.Helper()
	var said struct {
		Regions []struct{ ShardID string }
	}
	n.get(t, "/cluster/shards/Cart", &said)
	var out []string
	for _, r := range said.Regions {
		out = append(out, r.ShardID)
	}
	return out
}

// Without the controller, the last plan holds, and a member that never had one does not disturb it.
func TestControllerUnreachable(t *testing.T) {
	f, a, b, canary := three(t, 20)
	moves := f.moves()
	f.controller.set(http.StatusInternalServerError, "", nil)
	_, port, err := canary.cluster.ActorSystem.GetHostPort()
	if err != nil {
		t.Fatal(err)
	}
	canary.kill()
	f.expel(canary)
	again := f.startAt("canary", port)
	f.together()
	// Both the member without a plan and one with the last plan find all carts.
	f.touch(again)
	f.touch(a)
	f.owned(10*time.Second, split(20, again, a, b))
	if again.lookup.Version() != 0 {
		t.Error("the restarted member has a plan; the test shows nothing")
	}
	time.Sleep(500 * time.Millisecond)
	if n := f.moves() - moves; n != 0 {
		t.Errorf("%d shards moved without the controller", n)
	}
}

func TestNothingMovesWhileThePlanIsHeldOrWithdrawn(t *testing.T) {
	f, a, b, canary := three(t, 0)
	held := f.plan(split(50, canary, a, b))
	held.Held = "MemberJoining"
	f.controller.set(http.StatusOK, "", held)
	f.until("the held plan", 5*time.Second, func() bool { return a.lookup.Version() == held.Version && b.lookup.Version() == held.Version })
	time.Sleep(500 * time.Millisecond)
	f.owned(time.Second, split(0, canary, a, b))
	for _, refusal := range []int{http.StatusForbidden, http.StatusUnauthorized} {
		f.controller.set(refusal, "", nil)
		f.until("the refusal", 5*time.Second, func() bool { return a.held() && b.held() })
		time.Sleep(300 * time.Millisecond)
		f.owned(time.Second, split(0, canary, a, b))
	}
	f.controller.set(http.StatusOK, "", f.plan(split(50, canary, a, b)))
	f.owned(20*time.Second, split(50, canary, a, b))
}

// held reports whether the member knows that the controller gives it no plan any more.
func (n *node) held() bool {
	return strings.Contains(n.lookup.group.Report().MovesHeld, "no plan any more")
}

// A member without the kind asks for grains, and never gets their shards.
func TestMemberWithoutTheKind(t *testing.T) {
	f := newFleet(t)
	f.controller.set(http.StatusNotFound, "NotEnabled", nil)
	one, _ := f.newNode("front")
	front := f.join(one, 0)
	a := f.start("stable")
	f.together()
	f.touch(front)
	if n := len(a.owned(t)); n != testShards {
		t.Errorf("the only member with the kind has %d shards", n)
	}
	if code := front.get(t, "/cluster/shards/Cart", nil); code != http.StatusNotFound {
		t.Errorf("the shards of a kind that a member does not have: %d", code)
	}
}

// What the controller reads.
func TestManagement(t *testing.T) {
	f := newFleet(t)
	n, _ := f.newNode("stable")
	if code := n.get(t, "/cluster/members", nil); code != http.StatusServiceUnavailable {
		t.Errorf("before the start: %d", code)
	}
	f.join(n, 0)
	f.together()
	var said struct {
		SelfNode, Leader string
		Members          []struct{ Node, NodeUID, Status string }
		Unreachable      []any
	}
	n.get(t, "/cluster/members", &said)
	if said.SelfNode != n.address() || len(said.Members) != 1 || said.Members[0].Node != n.address() || said.Members[0].Status != "Up" || said.Leader != n.address() {
		t.Errorf("%+v", said)
	}
	if _, err := strconv.ParseUint(said.Members[0].NodeUID, 10, 64); err != nil || said.Unreachable == nil {
		t.Errorf("the uid is no number, or unreachable is null: %+v", said)
	}
	p := f.plan(func(int) *node { return n })
	f.controller.set(http.StatusOK, "", p)
	f.until("the plan", 5*time.Second, func() bool { return n.lookup.Version() == p.Version })
	var placement struct {
		Version    int64
		Following  bool
		AgeSeconds *float64
		MovesHeld  string
	}
	n.get(t, "/placement", &placement)
	if placement.Version != p.Version || !placement.Following || placement.AgeSeconds == nil || placement.MovesHeld != "" {
		t.Errorf("%+v", placement)
	}
	if err := n.lookup.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.get(t, "/cluster/members", &said)
	if said.Members[0].Status != "Leaving" {
		t.Errorf("after Leave: %+v", said)
	}
}

func TestEvenWithoutPlacement(t *testing.T) {
	f := newFleet(t)
	f.controller.set(http.StatusNotFound, "NotEnabled", nil)
	a, b := f.start("stable"), f.start("stable")
	f.together()
	f.touch(a)
	if n := len(a.owned(t)); n != 50 || len(b.owned(t)) != 50 {
		t.Errorf("of 100 shards, one of two members has %d", n)
	}
	load := f.load()
	c := f.start("canary")
	f.together()
	f.until("an even placement", 20*time.Second, func() bool {
		return len(a.owned(t)) >= 33 && len(b.owned(t)) >= 33 && len(c.owned(t)) >= 33 && len(f.owners()) == testShards
	})
	load.end()
	if load.unanswered.Load() > 0 {
		t.Errorf("%d requests had no answer", load.unanswered.Load())
	}
}

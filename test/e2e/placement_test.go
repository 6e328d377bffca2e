// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// TestPlacement rolls a canary out on Pekko with the client library, and back. At each step, the canary has exactly its
// percentage of the 100 shards, and no shard has moved that did not have to.
func TestPlacement(t *testing.T) {
	sideBySide(t)
	for name, version := range map[string][2]string{
		// Pekko alone gives the higher version all shards that are allocated while there are two.
		"AppVersionSet": {"1", "2"},
		// Pekko alone gives each member an equal part.
		"NoAppVersion": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "NoAppVersion" {
				onlyInFull(t)
			}
			s := newScene(t)
			s.source("source", service("sink"), production)
			app := s.planned()
			app.Env["APP_VERSION"] = version[0]
			s.rollOut(app, map[string]string{"APP_VERSION": version[1]})
		})
	}
}

// TestPlacementAkka does the same on Akka, without an app-version: Akka alone gives each member an equal part.
func TestPlacementAkka(t *testing.T) {
	sideBySide(t)
	onlyInFull(t)
	s := newScene(t)
	s.source("source", service("sink"), production)
	app := s.akka()
	app.Annotations[v1alpha1.AnnotationPlacement] = string(v1alpha1.PlacementEnforce)
	app.Env = map[string]string{"PLACEMENT": "true"}
	s.rollOut(app, nil)
}

// TestPlacementProtoactor does the same on protoactor-go, with its client library.
func TestPlacementProtoactor(t *testing.T) {
	sideBySide(t)
	onlyInFull(t)
	s := newScene(t)
	s.source("source", service("sink"), production)
	image, err := suite.Carts.ShardedImage(t.Context())
	s.must(err)
	app := suite.Carts.Sharded(s.ns, image)
	app.Annotations = map[string]string{
		v1alpha1.AnnotationPlacement: string(v1alpha1.PlacementEnforce), v1alpha1.AnnotationManagementPort: "9099",
	}
	app.Tagged = true
	app.Env = map[string]string{"PLACEMENT": "true"}
	s.rollOut(app, nil)
}

// rollOut deploys an application, releases a canary with another environment, and checks the shards at each step.
func (s *scene) rollOut(app *kit.Cart, canary map[string]string) {
	s.Helper()
	locks := s.locked(app)
	s.allocate(app)
	before := s.still(app)

	s.must(suite.Carts.ReleaseCanary(s.Context(), app, canary))
	steps := []step{{0, 0}, {5, 5}, {20, 15}, {0, 20}}
	if suite.full {
		steps = []step{{0, 0}, {5, 5}, {20, 15}, {50, 30}, {100, 50}, {0, 100}}
	}
	for i, step := range steps {
		s.must(suite.Carts.Split(s.Context(), app, int64(step.percent)))
		begun := time.Now()
		after := s.owners(app, step.percent)
		moves := 0
		for shard, owner := range before {
			if after[shard] != owner {
				moves++
			}
		}
		s.Logf("%d %%: %d moves, %s after the split was in effect", step.percent, moves, time.Since(begun).Round(time.Second))
		if moves != step.moves {
			s.Errorf("%d %%: %d shards moved, want %d", step.percent, moves, step.moves)
		}
		before = after
		if step.percent == 5 {
			s.handles(app, 5)
		}
		// As a pipeline does, it waits for the event before the next step.
		s.rebalanced(app, steps[:i+1])
	}
	s.neverTwice(locks, app)
}

// locked makes each entity of an application take a lock while it runs, in a program outside of the cluster.
func (s *scene) locked(app *kit.Cart) kit.Server {
	s.Helper()
	image, err := suite.Image(s.Context(), "./test/apps/locks")
	s.must(err)
	server := kit.Server{Namespace: s.ns, Name: "locks", Image: image}
	s.must(suite.Workloads.Serve(s.Context(), server))
	app.Env["LOCKS"] = fmt.Sprintf("locks.%s.svc:80", s.ns)
	return server
}

// neverTwice checks that no entity ever ran in two places at once. Killed are the pods whose connections may have
// ended.
func (s *scene) neverTwice(server kit.Server, app *kit.Cart, killed ...string) {
	s.Helper()
	saw, err := suite.Locks(s.Context(), server)
	s.must(err)
	s.Logf("entities took %d locks, hold %d, and %d were held twice; connections: %v, ended with locks: %v", saw.Taken, saw.Held, saw.HeldTwice, saw.Pods, saw.Ended)
	for _, twice := range saw.Twice {
		s.Errorf("%s ran in pod %s while it ran in %v", twice.Lock, twice.Taker, twice.Holders)
	}
	if saw.HeldTwice > 0 || saw.Taken == 0 {
		s.Errorf("%d of %d locks were held twice", saw.HeldTwice, saw.Taken)
	}
	// A lock of a connection that ended early is not held, so it would hide a second incarnation.
	pods, err := suite.Carts.Pods(s.Context(), app)
	s.must(err)
	for _, p := range pods {
		if saw.Pods[p.Name] == 0 {
			s.Errorf("pod %s has no connection to the locks", p.Name)
		}
	}
	for pod, held := range saw.Ended {
		if held > 0 && !slices.Contains(killed, pod) {
			s.Errorf("the connection of pod %s ended while its entities held %d locks", pod, held)
		}
	}
}

// allocate deploys an application, and sends requests until all of its 100 shards are allocated: there are 15 carts for
// each.
func (s *scene) allocate(app *kit.Cart) *kit.Clients {
	s.Helper()
	s.must(suite.Carts.Deploy(s.Context(), app))
	clients, err := suite.Carts.Clients(s.Context(), app)
	s.must(err)
	clients.Carts = 1500
	s.must(clients.SendUntil(s.Context(), app.Stable()))
	s.must(clients.Send(s.Context(), clients.Carts))
	return clients
}

// planned is the Pekko application with the client library.
func (s *scene) planned() *kit.Cart {
	s.Helper()
	app := s.pekko()
	app.Annotations = map[string]string{v1alpha1.AnnotationPlacement: string(v1alpha1.PlacementEnforce)}
	// Two of three pods that end at once may take Pekko's majority with them.
	app.Tagged = true
	app.Env = map[string]string{"PLACEMENT": "true"}
	return app
}

// rebalanced checks that one event announced each step, with as many shards for each Revision as it must have.
func (s *scene) rebalanced(app *kit.Cart, steps []step) {
	s.Helper()
	type placed struct {
		CustomData struct {
			Cluster struct {
				Members []struct {
					Revision               string
					Shards, RequiredShards *int
				}
				Placement struct {
					Mode           string
					Pending, Moves int
				}
			}
		}
	}
	var told []step
	s.must(kit.Wait(s.Context(), time.Minute, "an event for each step", func(ctx context.Context) error {
		events, err := s.sink.events(ctx)
		if err != nil {
			return err
		}
		told = []step{{0, 0}} // without a change of the traffic, nothing is announced
		for _, e := range events {
			if e.Header.Get("Ce-Type") != clusterRebalanced {
				continue
			}
			conforms(s.T, e, "0.5.1")
			capture(s.T, e)
			var p placed
			s.must(json.Unmarshal(e.Body, &p))
			now := step{moves: p.CustomData.Cluster.Placement.Moves}
			for _, m := range p.CustomData.Cluster.Members {
				if m.Shards == nil || m.RequiredShards == nil || *m.Shards != *m.RequiredShards {
					s.Errorf("a Revision has other shards than it must have: %s", e.Body)
				}
				if m.Revision == app.Canary() && m.Shards != nil {
					now.percent = *m.Shards
				}
			}
			if told = append(told, now); p.CustomData.Cluster.Placement.Mode != "enforce" || p.CustomData.Cluster.Placement.Pending != 0 {
				s.Errorf("not in place: %s", e.Body)
			}
		}
		if len(told) < len(steps) {
			return kit.NotYet("received %q", typesOf(events))
		}
		return nil
	}))
	if !slices.Equal(told, steps) {
		s.Errorf("the events tell of %v, want %v", told, steps)
	}
}

// TestGateOverPlacement: a canary of 20 % handles 20 %, so the gate judges it as it judges any other canary. It prints
// how many requests the gate needed to stop a bad release, with placement and without. The carts are spread evenly over
// the shards: a plan can say who handles a shard, and not how many carts it has.
func TestGateOverPlacement(t *testing.T) {
	sideBySide(t)
	onlyInFull(t)
	if suite.guest {
		t.Skip("it needs the controller")
	}
	t.Run("ByThePlan", func(t *testing.T) {
		s := emptyScene(t)
		app := s.planned()
		run, report := s.badRelease(app)
		if run.Verdict != verdict.Fail || run.Canary.Name != app.Canary() || slices.Contains(run.Reasons, string(verdict.ExposureMismatch)) {
			t.Errorf("the run ended as %s", compact(run))
		}
		if report.HandledShare == nil || math.Abs(*report.HandledShare-.2) > .01 {
			t.Error("want a share of 0.2 within 0.01")
		}
	})
	// The same release, of which Pekko alone decides how much it handles.
	t.Run("Unplanned", func(t *testing.T) {
		s := emptyScene(t)
		app := s.pekko()
		app.Tagged = true
		if run, _ := s.badRelease(app); run.Verdict == verdict.Pass {
			t.Errorf("the bad release passed: %s", compact(run))
		}
	})
}

// badRelease gives 20 % of the traffic to a canary that fails 5 % of what it handles, and returns what a gate said to
// it.
func (s *scene) badRelease(app *kit.Cart) (*v1alpha1.GateRun, verdict.Judgement) {
	s.Helper()
	ctx := s.Context()
	s.allocate(app)
	s.must(suite.Carts.ReleaseCanary(ctx, app, map[string]string{"FAIL_RATE": "0.05"}))
	s.watches("5m")
	s.must(suite.Carts.WaitOneCluster(ctx, app))
	s.must(suite.Carts.Split(ctx, app, 20))
	begun := time.Now()
	stop := s.sendTo(app, func(c *kit.Clients) { c.Even = 100 })
	run := s.verdict()
	stop()
	if run.Report == nil {
		s.Fatalf("the run ended without a report: %s %v", run.Verdict, run.Reasons)
	}
	report := *run.Report
	share := "unknown"
	if report.HandledShare != nil {
		share = fmt.Sprintf("%.3f", *report.HandledShare)
	}
	s.Logf("%s %v after %s, with %d requests of the canary and %d of the baseline; the canary's share of what was handled: %s",
		run.Verdict, run.Reasons, time.Since(begun).Round(time.Second), report.Canary.Requests, report.Baseline.Requests, share)
	return run, report
}

// step of a rollout: the canary's percentage, and how many of the 100 shards have to move.
type step struct{ percent, moves int }

// owners waits until the canary has a number of the 100 shards, and the stable Revision all others.
func (s *scene) owners(app *kit.Cart, canary int) map[string]kit.ShardOwner {
	s.Helper()
	var owners map[string]kit.ShardOwner
	s.must(kit.Wait(s.Context(), 3*time.Minute, "the planned owners", func(ctx context.Context) error {
		now, err := suite.Carts.ShardOwners(ctx, app)
		if err != nil {
			return kit.NotYet("%v", err)
		}
		shards := map[string]int{app.Stable(): 0, app.Canary(): 0}
		for _, o := range now {
			shards[o.Revision]++
		}
		if want := map[string]int{app.Stable(): 100 - canary, app.Canary(): canary}; !maps.Equal(shards, want) {
			return kit.NotYet("the shards are %v, want %v", shards, want)
		}
		owners = now
		return nil
	}))
	return owners
}

// still waits until no shard moves between the stable pods: the first ones may be placed before there is a plan.
func (s *scene) still(app *kit.Cart) map[string]kit.ShardOwner {
	s.Helper()
	last := s.owners(app, 0)
	for range 12 {
		time.Sleep(5 * time.Second)
		now := s.owners(app, 0)
		if maps.Equal(last, now) {
			return now
		}
		last = now
	}
	s.Fatal("shards still move after a minute although nothing changes")
	return nil
}

// handles checks which part of the requests the canary handles. Carts are not spread evenly over shards.
func (s *scene) handles(app *kit.Cart, percent float64) {
	s.Helper()
	clients, err := suite.Carts.Clients(s.Context(), app)
	s.must(err)
	clients.Carts = 1500
	s.must(clients.Send(s.Context(), clients.Carts))
	truth := clients.Truth()
	s.Logf("what the clients got\n%s", truth)
	if len(truth.Lost) > 0 || truth.Handled[""].All() > 0 {
		s.Errorf("requests were lost although no shard moved: %v, %v", truth.Lost, truth.Handled[""])
	}
	if got := 100 * float64(truth.Handled[app.Canary()].All()) / float64(truth.Sent()); got < percent-2 || got > percent+2 {
		s.Errorf("the canary handled %.1f %% of the requests, want %.0f %%", got, percent)
	}
}

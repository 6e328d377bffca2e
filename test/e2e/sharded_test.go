// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// TestShardedApp verifies what the canary tests assume of test/sharded: one cluster of two Revisions, in which requests
// are handled by another Revision than the one they entered, and correct counters.
func TestShardedApp(t *testing.T) {
	sideBySide(t)
	onlyInFull(t)
	s := emptyScene(t)
	app := s.sharded()
	truth := s.canaryOfFive(app, 2000)

	// The shards of a member depend on the pods' addresses.
	if share := float64(truth.Handled[app.Canary()].All()) / float64(truth.Sent()); share < 0.1 || share > 0.6 {
		t.Errorf("the canary handled %.1f %%: the placement is too close to the Route's split, or too far from it", 100*share)
	}
	if held, err := suite.Carts.CountedSum(t.Context(), app, "stateful_shards"); err != nil || held[app.Stable()]+held[app.Canary()] != 100 {
		t.Errorf("the pods hold %v shards in total, want 100 (error: %v)", held, err)
	}
	s.sameAsCounted(app, truth)
}

// TestMeasuredOverCrashAndEviction crashes a container and evicts a pod during a rollout. The requests that they
// handled stay counted, and both incidents are reported.
func TestMeasuredOverCrashAndEviction(t *testing.T) {
	sideBySide(t)
	onlyInFull(t)
	if suite.guest {
		t.Skip("it needs the controller")
	}
	s := emptyScene(t)
	ctx := t.Context()
	app := s.sharded()
	clients, err := suite.Carts.Clients(ctx, app)
	s.must(err)
	s.sameAsMeasured(app, s.canaryOfFiveBy(app, clients, 500))

	pods, err := suite.Carts.Pods(ctx, app)
	s.must(err)
	var crashed, evicted string
	for _, p := range pods {
		if p.Labels["serving.knative.dev/revision"] == app.Canary() {
			crashed = p.Name
		} else {
			evicted = p.Name
		}
	}
	s.must(suite.Carts.Crash(ctx, app, crashed))
	s.must(clients.Send(ctx, 300))
	m := s.sameAsMeasured(app, clients.Truth())
	if restarts := m.Counts("canary_pod_restarts_total", "reason")[app.Canary()]; restarts.All() == 0 {
		t.Errorf("the canary's pod was restarted, but the reported restarts are %v", restarts)
	}

	s.must(suite.Workloads.Evict(ctx, s.ns, evicted))
	s.must(suite.Carts.WaitOneCluster(ctx, app))
	s.must(clients.Send(ctx, 300))
	truth := clients.Truth()
	if len(truth.Lost) > 0 {
		t.Fatalf("requests were lost, so the truth is unknown: %v", truth.Lost)
	}
	s.sameAsMeasured(app, truth)
}

// TestMeasuredOverHandoverAndScaleDown kills the measuring replica during a rollout, and then scales the stable
// Revision to zero, which still handles most of the requests that enter at the canary.
func TestMeasuredOverHandoverAndScaleDown(t *testing.T) {
	onlyInFull(t)
	if suite.guest || !suite.Own() {
		t.Skip("it needs the controller, on the cluster made by test/cluster")
	}
	s := emptyScene(t)
	ctx := t.Context()
	app := s.sharded()
	s.sameAsMeasured(app, s.canaryOfFive(app, 500))

	// The next replica starts to count at zero, and no other counts at the same time.
	_, leads := leader(t, s.ns, "cart")
	s.must(suite.Controller.Crash(ctx, leads))
	s.must(kit.Wait(ctx, 2*time.Minute, "measurements of another replica", func(ctx context.Context) error {
		m, err := suite.Carts.Measured(ctx, app)
		if err != nil {
			return err
		}
		if why := m.Why(app.Canary(), "handled_requests_total"); why != "" || len(m["canary_handled_requests_total"]) == 0 {
			return kit.NotYet("no figures of the canary: %s", why)
		}
		if got := m.Counts("canary_handled_requests_total", "outcome"); len(got) > 0 {
			return kit.NotYet("it already has handled requests: %v", got)
		}
		return nil
	}))
	clients, err := suite.Carts.Clients(ctx, app)
	s.must(err)
	s.must(clients.Send(ctx, 500))
	s.sameAsMeasured(app, clients.Truth())

	s.must(suite.Carts.Split(ctx, app, 100))
	gone := make(chan error, 1)
	go func() {
		gone <- suite.Workloads.WaitGone(ctx, s.ns, "serving.knative.dev/revision="+app.Stable())
	}()
	for left := false; !left; {
		s.must(clients.Send(ctx, 50))
		select {
		case err := <-gone:
			s.must(err)
			left = true
		case <-time.After(time.Second):
		}
	}
	s.must(clients.Send(ctx, 100))
	truth := clients.Truth()
	t.Logf("what the clients got\n%s", truth)
	// A request without an answer may have been handled or not.
	unknown := truth.Handled[""].All()
	for _, n := range truth.Lost {
		unknown += n
	}
	s.must(kit.Wait(ctx, 4*readEvery, "complete totals of the controller", func(ctx context.Context) error {
		m, err := suite.Carts.Measured(ctx, app)
		if err != nil {
			return err
		}
		handled := m.Counts("canary_handled_requests_total", "outcome")
		for _, revision := range []string{app.Stable(), app.Canary()} {
			if got, want := handled[revision].All(), truth.Handled[revision].All(); got < want || got > want+unknown {
				return kit.NotYet("%s handled %d, the clients know of %d and have no answer for %d", revision, got, want, unknown)
			}
		}
		return nil
	}))
	if truth.Handled[app.Stable()].All() == 0 || unknown > truth.Sent()/100 {
		t.Errorf("the stable Revision handled %d, and %d requests have no answer", truth.Handled[app.Stable()].All(), unknown)
	}
}

// TestShardedAppAfterACrash shows that a restarted container is an ordinary member: it handles its requests once, as
// the clients see it, and its counters start at zero.
func TestShardedAppAfterACrash(t *testing.T) {
	sideBySide(t)
	onlyInFull(t)
	s := emptyScene(t)
	image, err := suite.Carts.ShardedImage(t.Context())
	s.must(err)
	app := suite.Carts.Sharded(s.ns, image)
	s.must(suite.Carts.Deploy(t.Context(), app))
	before, err := suite.Carts.Clients(t.Context(), app)
	s.must(err)
	s.must(before.SendUntil(t.Context(), app.Stable()))
	s.must(before.Send(t.Context(), 200))
	pods, err := suite.Carts.Pods(t.Context(), app)
	s.must(err)
	crashed, other := pods[0].Name, pods[1].Name
	s.must(suite.Carts.Crash(t.Context(), app, crashed))

	after, err := suite.Carts.Clients(t.Context(), app)
	s.must(err)
	s.must(after.Send(t.Context(), 400))
	first, truth := before.Truth(), after.Truth()
	t.Logf("before\n%safter\n%s", first, truth)
	if len(truth.Lost) > 0 || truth.Handled[app.Stable()]["ok"] != 400 || truth.Pods[crashed].All() == 0 {
		t.Errorf("of 400 requests %d were handled, %d of them by the pod that had crashed; lost: %v",
			truth.Handled[app.Stable()]["ok"], truth.Pods[crashed].All(), truth.Lost)
	}
	counted, err := suite.Carts.Counted(t.Context(), app)
	s.must(err)
	if got, want := counted.Pods[crashed].All(), truth.Pods[crashed].All(); got != want {
		t.Errorf("the pod that crashed counted %d since then, but handled %d", got, want)
	}
	if got, want := counted.Pods[other].All(), first.Pods[other].All()+truth.Pods[other].All(); got != want {
		t.Errorf("the other pod counted %d, but handled %d", got, want)
	}
	if held, err := suite.Carts.CountedSum(t.Context(), app, "stateful_shards"); err != nil || held[app.Stable()] != 100 {
		t.Errorf("the pods hold %v shards, want 100, each on one pod (error: %v)", held, err)
	}
}

// sharded deploys test/sharded with a canary that fails 5 % of what it handles.
func (s *scene) sharded() *kit.Cart {
	s.Helper()
	image, err := suite.Carts.ShardedImage(s.Context())
	s.must(err)
	app := suite.Carts.Sharded(s.ns, image)
	s.must(suite.Carts.Deploy(s.Context(), app))
	s.must(suite.Carts.ReleaseCanary(s.Context(), app, map[string]string{"FAIL_RATE": "0.05"}))
	return app
}

// canaryOfFive waits for one cluster of both Revisions, gives the canary 5 % of the traffic and sends requests. It
// returns everything that the application has handled.
func (s *scene) canaryOfFive(app *kit.Cart, requests int) *kit.Truth {
	s.Helper()
	clients, err := suite.Carts.Clients(s.Context(), app)
	s.must(err)
	return s.canaryOfFiveBy(app, clients, requests)
}

// canaryOfFiveBy does the same with clients that have sent requests before; its result includes those.
func (s *scene) canaryOfFiveBy(app *kit.Cart, clients *kit.Clients, requests int) *kit.Truth {
	s.Helper()
	s.must(suite.Carts.WaitOneCluster(s.Context(), app))
	s.must(suite.Carts.Split(s.Context(), app, 5))
	// A canary that was scaled to zero now runs in another pod.
	s.must(suite.Carts.WaitOneCluster(s.Context(), app))
	s.must(clients.SendUntil(s.Context(), app.Canary()))
	s.must(clients.Send(s.Context(), requests))
	truth := clients.Truth()
	s.Logf("what the clients got for %d requests\n%s", truth.Sent(), truth)

	if len(truth.Lost) > 0 || truth.Handled[""].All() > 0 {
		s.Errorf("requests were lost, so the truth is unknown: %v, %v", truth.Lost, truth.Handled[""])
	}
	if n := truth.Entered[app.Canary()].All(); n < requests/50 || n > requests/10 {
		s.Errorf("%d of %d entered at the canary, want 5 %%", n, requests)
	}
	// For 200 requests, one run in 30,000 has no failure.
	canary := truth.Handled[app.Canary()]
	if truth.Handled[app.Stable()]["error"] > 0 || canary["error"] == 0 && canary.All() >= 200 {
		s.Errorf("the canary fails 5 %% and the stable Revision nothing, but the outcomes are %v", truth.Handled)
	}
	return truth
}

// sameAsCounted compares the truth with the pods' own counters. No request may be in flight.
func (s *scene) sameAsCounted(app *kit.Cart, truth *kit.Truth) {
	s.Helper()
	counted, err := suite.Carts.Counted(s.Context(), app)
	s.must(err)
	s.Logf("what the pods counted\n%s", counted)
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"by handling Revision", counted.Handled, truth.Handled},
		{"by handling pod", counted.Pods, truth.Pods},
		{"by shard", counted.Shards, truth.Shards},
		{"by entry and handling", counted.Matrix, truth.Matrix},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			s.Errorf("%s: the pods counted\n%v, the clients got\n%v", c.what, c.got, c.want)
		}
	}
	for _, family := range []string{"stateful_requests_started_total", "stateful_request_duration_seconds"} {
		sums, err := suite.Carts.CountedSum(s.Context(), app, family)
		s.must(err)
		for revision, handled := range truth.Handled {
			if sums[revision] != handled.All() {
				s.Errorf("%s of %s is %d, but it handled %d", family, revision, sums[revision], handled.All())
			}
		}
	}
}

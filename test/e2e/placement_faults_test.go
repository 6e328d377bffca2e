// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// TestPlacementUnderLoad moves shards while requests are sent: through a failure of all of the controller's pods, and
// through a rollback in the middle of a move. Each request is answered, and handled once. Then the member that assigns
// the shards is killed: the plan is followed again by the one that takes over.
func TestPlacementUnderLoad(t *testing.T) {
	onlyInFull(t)
	if suite.guest {
		t.Skip("it restarts the controller")
	}
	s := emptyScene(t)
	ctx := t.Context()
	app := s.planned()
	// Longer than a hand-over takes on a busy machine.
	app.Env["PATIENCE_MILLIS"] = "20000"
	locks, clients := s.withCanary(app)

	stop := background(ctx, clients)
	s.must(suite.Carts.Split(ctx, app, 50))
	s.must(suite.Controller.Restart(ctx))
	s.owners(app, 50)
	t.Log("50 % while the controller's pods were replaced")
	s.must(suite.Carts.Split(ctx, app, 0))
	s.owned(app, func(canary int) bool { return canary < 50 })
	s.must(suite.Carts.Split(ctx, app, 20))
	s.owners(app, 20)
	stop()
	truth := clients.Truth()
	t.Logf("what the clients got during the moves\n%s", truth)
	s.answeredOnce(app, truth)
	retries, err := suite.Carts.CountedSum(ctx, app, "stateful_ask_retries_total")
	s.must(err)
	t.Logf("%d requests; attempts after the first one, by the Revision of entry: %v", truth.Sent(), retries)
	s.neverTwice(locks, app)

	// What was in flight to the dead member may be lost. Carts start empty on another one.
	stop = background(ctx, clients)
	oldest := s.oldest(app)
	s.must(suite.Workloads.Crash(ctx, &oldest))
	s.owners(app, 20)
	stop()
	truth = clients.Truth()
	t.Logf("what the clients got in all; pod %s, the oldest member, was killed\n%s", oldest.Name, truth)
	s.neverTwice(locks, app, oldest.Name)
}

// TestPlacementRetry loses first attempts on purpose: shards move every second under load, while a member is paused
// again and again, as a long garbage collection does. Pekko then drops what a region got for a shard on its way. With
// the retry, each request is answered and handled once. Without it, requests are lost.
func TestPlacementRetry(t *testing.T) {
	onlyInFull(t)
	if suite.guest || !suite.Own() {
		t.Skip("it needs the controller, and pauses processes on the cluster made by test/cluster")
	}
	for _, retry := range []bool{true, false} {
		t.Run(map[bool]string{true: "On", false: "Off"}[retry], func(t *testing.T) {
			s := emptyScene(t)
			app := s.planned()
			app.Env["REBALANCE_MILLIS"] = "1000"
			app.Env["PATIENCE_MILLIS"] = "20000"
			if !retry {
				app.Env["RETRY"], app.Env["PATIENCE_MILLIS"] = "false", "8000"
			}
			locks, clients := s.withCanary(app)
			clients.Workers = 24

			stop := background(t.Context(), clients)
			unpause := s.pauses(app)
			moves := 0
			for begun := time.Now(); time.Since(begun) < 75*time.Second; {
				for _, percent := range []int{50, 0} {
					s.must(suite.Carts.Split(t.Context(), app, int64(percent)))
					s.owners(app, percent)
					moves += 50
				}
			}
			unpause()
			stop()
			truth := clients.Truth()
			t.Logf("what the clients got during %d moves\n%s", moves, truth)
			s.neverTwice(locks, app)
			unanswered := truth.Handled[""].All()
			again, known := s.sum(app, "stateful_ask_retries_total"), s.sum(app, "stateful_requests_repeated_total")
			t.Logf("%d requests, %d moves: %d attempts after the first, %d of them for requests that were known; %d attempts were lost; %d requests got no answer, and %d of those were handled",
				truth.Sent(), moves, again, known, again-known, unanswered, s.sum(app, "stateful_requests_total")-(truth.Sent()-unanswered))
			if len(truth.Lost) > 0 {
				t.Errorf("requests did not reach the application: %v", truth.Lost)
			}
			if !retry {
				if unanswered == 0 {
					t.Error("without the retry, each request was answered as well, so this test shows nothing of the retry")
				}
				return
			}
			if unanswered > 0 {
				t.Errorf("%d requests were not answered", unanswered)
			}
			if again-known <= 0 {
				t.Error("no attempt was lost, so this test shows nothing of the retry")
			}
			s.sameAsCounted(app, truth)
		})
	}
}

// TestLocksSeeASecondIncarnation shows that the locks of the other tests would notice an entity in two places. A member
// is suspended for longer than the split-brain resolver waits: the others place its shards anew, while its entities
// still hold their locks.
func TestLocksSeeASecondIncarnation(t *testing.T) {
	onlyInFull(t)
	if suite.guest || !suite.Own() {
		t.Skip("it needs the controller, and pauses processes on the cluster made by test/cluster")
	}
	s := emptyScene(t)
	app := s.planned()
	locks, clients := s.withCanary(app)
	s.neverTwice(locks, app)

	pod := s.secondStable(app)
	stop := background(t.Context(), clients)
	defer stop()
	s.must(suite.Workloads.Signal(t.Context(), "STOP", pod))
	defer func() { s.must(suite.Workloads.Signal(t.Context(), "CONT", pod)) }()
	s.must(kit.Wait(t.Context(), 2*time.Minute, "a lock that is held twice", func(ctx context.Context) error {
		saw, err := suite.Locks(ctx, locks)
		if err != nil {
			return err
		}
		if saw.HeldTwice == 0 {
			return kit.NotYet("%d locks were taken, and none is held twice", saw.Taken)
		}
		for _, twice := range saw.Twice {
			if !slices.Contains(twice.Holders, pod.Name) {
				t.Errorf("%s ran in pod %s while it ran in %v; only %s is suspended", twice.Lock, twice.Taker, twice.Holders, pod.Name)
			}
		}
		t.Logf("%d of %d locks were held twice", saw.HeldTwice, saw.Taken)
		return nil
	}))
}

// sum adds up a counter of all pods.
func (s *scene) sum(app *kit.Cart, family string) int {
	s.Helper()
	sums, err := suite.Carts.CountedSum(s.Context(), app, family)
	s.must(err)
	all := 0
	for _, n := range sums {
		all += n
	}
	return all
}

// pauses stops the processes of the second stable pod for half a second, again and again, until the returned function
// is called. Its members answer nothing in the meantime, for less than what Pekko takes for a failure.
func (s *scene) pauses(app *kit.Cart) (stop func()) {
	s.Helper()
	pod := s.secondStable(app)
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := suite.Workloads.Signal(context.WithoutCancel(ctx), "STOP", pod); err != nil {
				s.Errorf("pausing: %v", err)
				return
			}
			time.Sleep(500 * time.Millisecond)
			if err := suite.Workloads.Signal(context.WithoutCancel(ctx), "CONT", pod); err != nil {
				s.Errorf("resuming: %v", err)
				return
			}
			time.Sleep(time.Second)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// secondStable returns the pod of the stable Revision that is not the oldest member.
func (s *scene) secondStable(app *kit.Cart) *corev1.Pod {
	s.Helper()
	pods, err := suite.Carts.Pods(s.Context(), app)
	s.must(err)
	oldest := s.oldest(app)
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool {
		return p.Name != oldest.Name && p.Labels["serving.knative.dev/revision"] == app.Stable()
	})
	if i < 0 {
		s.Fatalf("there is no second pod of %s", app.Stable())
	}
	return &pods[i]
}

// TestPlacementControllerAway takes the controller away for two minutes under load, and changes the split meanwhile.
// The members keep the last plan and move nothing. Then they follow the split.
func TestPlacementControllerAway(t *testing.T) {
	onlyInFull(t)
	if suite.guest {
		t.Skip("it scales the controller")
	}
	s := emptyScene(t)
	app := s.planned()
	app.Env["PATIENCE_MILLIS"] = "20000"
	s.controllerAway(app)
}

func (s *scene) controllerAway(app *kit.Cart) {
	s.Helper()
	ctx := s.Context()
	locks, clients := s.withCanary(app)
	stop := background(ctx, clients)
	s.must(suite.Carts.Split(ctx, app, 20))
	before := s.owners(app, 20)

	deployment, err := suite.Controller.Deployment(ctx)
	s.must(err)
	back := func() { s.must(suite.Controller.Scale(context.WithoutCancel(ctx), int(*deployment.Spec.Replicas))) }
	s.Cleanup(back)
	s.must(suite.Controller.Scale(ctx, 0))
	s.must(suite.Carts.Split(ctx, app, 50))
	for away := time.Now(); time.Since(away) < 2*time.Minute; time.Sleep(10 * time.Second) {
		if now := s.owners(app, 20); !maps.Equal(now, before) {
			s.Fatalf("shards moved %s after the controller went away", time.Since(away))
		}
	}
	back()
	begun := time.Now()
	after := s.owners(app, 50)
	stop()
	moves := 0
	for shard, owner := range before {
		if after[shard] != owner {
			moves++
		}
	}
	truth := clients.Truth()
	s.Logf("%d moves, %s after the controller was back; what the clients got\n%s", moves, time.Since(begun).Round(time.Second), truth)
	if moves != 30 {
		s.Errorf("%d shards moved, want 30", moves)
	}
	s.answeredOnce(app, truth)
	s.neverTwice(locks, app)
}

// answeredOnce checks that each request was answered, and handled once.
func (s *scene) answeredOnce(app *kit.Cart, truth *kit.Truth) {
	s.Helper()
	if len(truth.Lost) > 0 || truth.Handled[""].All() > 0 {
		s.Errorf("requests were not answered: %v, %v", truth.Lost, truth.Handled[""])
	}
	s.sameAsCounted(app, truth)
}

// TestPlacementProtoactorUnderLoad replaces the controller's pods in the middle of moves, turns a rollback around, and
// kills a member.
func TestPlacementProtoactorUnderLoad(t *testing.T) {
	onlyInFull(t)
	if suite.guest || !suite.Own() {
		t.Skip("it restarts the controller, and kills a process on the cluster made by test/cluster")
	}
	s := emptyScene(t)
	app := s.placedBy(false, true)
	app.Env["PATIENCE"] = "20s"
	s.underLoad(app)
}

// underLoad moves shards while requests are sent, and disturbs the moves.
func (s *scene) underLoad(app *kit.Cart) {
	s.Helper()
	ctx := s.Context()
	locks, clients := s.withCanary(app)

	stop := background(ctx, clients)
	s.must(suite.Carts.Split(ctx, app, 50))
	s.owned(app, func(canary int) bool { return canary > 0 })
	s.must(suite.Controller.Restart(ctx))
	s.owners(app, 50)
	s.Log("50 % while the controller's pods were replaced")
	s.must(suite.Carts.Split(ctx, app, 0))
	s.owned(app, func(canary int) bool { return canary < 50 })
	s.must(suite.Carts.Split(ctx, app, 20))
	s.owners(app, 20)
	stop()
	truth := clients.Truth()
	s.Logf("what the clients got during the moves\n%s", truth)
	s.answeredOnce(app, truth)
	s.neverTwice(locks, app)

	// What was in flight to the dead member may be lost.
	sent := truth.Sent()
	stop = background(ctx, clients)
	oldest := s.oldest(app)
	s.must(suite.Workloads.Crash(ctx, &oldest))
	s.owners(app, 20)
	stop()
	truth = clients.Truth()
	s.Logf("pod %s was killed: of %d requests after that, %d got no answer and %v none of the application; in all\n%s",
		oldest.Name, truth.Sent()-sent, truth.Handled[""].All(), truth.Lost, truth)
	s.neverTwice(locks, app, oldest.Name)
}

// background sends requests until stop is called.
func background(ctx context.Context, clients *kit.Clients) (stop func()) {
	sending, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for sending.Err() == nil {
			_ = clients.Send(ctx, 40) // whole batches, so that no request is cut off
			time.Sleep(200 * time.Millisecond)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// withCanary deploys an application whose entities take locks, and a canary without traffic in the same cluster.
func (s *scene) withCanary(app *kit.Cart) (locks kit.Server, clients *kit.Clients) {
	s.Helper()
	locks = s.locked(app)
	clients = s.allocate(app)
	s.must(suite.Carts.ReleaseCanary(s.Context(), app, nil))
	s.must(suite.Carts.WaitOneCluster(s.Context(), app))
	return locks, clients
}

// owned waits until the number of the canary's shards is as wanted.
func (s *scene) owned(app *kit.Cart, as func(canary int) bool) {
	s.Helper()
	s.must(kit.Wait(s.Context(), time.Minute, "moves of shards", func(ctx context.Context) error {
		shards, err := suite.Carts.PekkoShards(ctx, app)
		if err != nil {
			return kit.NotYet("%v", err)
		}
		if !as(shards[app.Canary()]) {
			return kit.NotYet("the shards are %v", shards)
		}
		return nil
	}))
}

// oldest returns the pod that started first: its member assigns the shards.
func (s *scene) oldest(app *kit.Cart) corev1.Pod {
	s.Helper()
	pods, err := suite.Carts.Pods(s.Context(), app)
	s.must(err)
	return slices.MinFunc(pods, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
}

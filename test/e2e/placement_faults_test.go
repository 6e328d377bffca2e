//go:build e2e

package e2e

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// TestPlacementUnderLoad moves shards while requests are sent: through a failure of all of the controller's pods, and through
// a rollback in the middle of a move. Each request is answered, and handled once. Then the member that assigns the shards is
// killed: the plan is followed again by the one that takes over.
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
	clients := s.allocate(app)
	s.must(suite.ReleaseCanary(ctx, app, nil))
	s.must(suite.WaitOneCluster(ctx, app))

	stop := background(ctx, clients)
	s.must(suite.SplitCart(ctx, app, 50))
	s.must(suite.Restart(ctx))
	s.owners(app, 50)
	t.Log("50 % while the controller's pods were replaced")
	s.must(suite.SplitCart(ctx, app, 0))
	s.owned(app, func(canary int) bool { return canary < 50 })
	s.must(suite.SplitCart(ctx, app, 20))
	s.owners(app, 20)
	stop()
	truth := clients.Truth()
	t.Logf("what the clients got during the moves\n%s", truth)
	if len(truth.Lost) > 0 || truth.Handled[""].All() > 0 {
		t.Errorf("requests were not answered: %v, %v", truth.Lost, truth.Handled[""])
	}
	s.sameAsCounted(app, truth)
	retries, err := suite.CountedSum(ctx, app, "stateful_ask_retries_total")
	s.must(err)
	t.Logf("%d requests; attempts after the first one, by the Revision of entry: %v", truth.Sent(), retries)

	// What was in flight to the dead member may be lost. Carts start empty on another one.
	stop = background(ctx, clients)
	oldest := s.oldest(app)
	now := int64(0)
	s.must(suite.Kube.CoreV1().Pods(s.ns).Delete(ctx, oldest.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	s.owners(app, 20)
	stop()
	truth = clients.Truth()
	t.Logf("what the clients got in all; pod %s, the oldest member, was killed\n%s", oldest.Name, truth)
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

// owned waits until the number of the canary's shards is as wanted.
func (s *scene) owned(app *kit.Cart, as func(canary int) bool) {
	s.Helper()
	s.must(kit.Wait(s.Context(), time.Minute, "moves of shards", func(ctx context.Context) error {
		shards, err := suite.PekkoShards(ctx, app)
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
	pods, err := suite.CartPods(s.Context(), app)
	s.must(err)
	return slices.MinFunc(pods, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
}

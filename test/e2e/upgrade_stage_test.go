// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"maps"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// canaryPercent is the canary's part of the traffic, and so of the shards.
const canaryPercent = 20

// stage is a rollout that an upgrade must not disturb: a sharded application whose canary has its part of the shards by
// the plan, a gate that has judged it, and one that still does.
type stage struct {
	*scene
	app    *kit.Cart
	owners map[string]kit.ShardOwner
	plan   types.UID
	// decided and open are the runs of the gates, as they were seen last.
	decided, open *v1alpha1.GateRun
	// stop ends the requests to it.
	stop func()
}

// The gates of a stage.
const (
	decides = "cart"
	goesOn  = "long"
)

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{scene: emptyScene(t)}
	ctx := t.Context()
	image, err := suite.Carts.ShardedImage(ctx)
	s.must(err)
	s.app = suite.Carts.Sharded(s.ns, image)
	s.app.Annotations = map[string]string{
		v1alpha1.AnnotationPlacement: string(v1alpha1.PlacementEnforce), v1alpha1.AnnotationManagementPort: "9099",
	}
	s.app.Tagged = true
	s.app.Env = map[string]string{"PLACEMENT": "true"}
	s.allocate(s.app)
	s.must(suite.Carts.ReleaseCanary(ctx, s.app, map[string]string{"VERSION": "two"}))
	s.watchesFor(decides, "15s", "5m")
	s.watchesFor(goesOn, "2h", "3h")
	s.must(suite.Carts.WaitOneCluster(ctx, s.app))
	s.must(suite.Carts.Split(ctx, s.app, canaryPercent))
	s.owners = s.scene.owners(s.app, canaryPercent)
	s.plan = s.placement()
	stop := s.sendTo(s.app, func(c *kit.Clients) { c.Even = 100 })
	s.decided = s.verdict()
	stop()
	s.trickle()
	s.open = s.continues(1)
	return s
}

// trickle sends a few requests each second, which leaves the machine to the others.
func (s *stage) trickle() {
	s.Helper()
	clients, err := suite.Carts.Clients(s.Context(), s.app)
	s.must(err)
	clients.Even = 100
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = clients.Send(ctx, 10) // ended by stop
			time.Sleep(time.Second)
		}
	}()
	s.stop = func() {
		cancel()
		<-done
	}
	s.Cleanup(s.stop)
}

// placement returns the UID of the plan.
func (s *stage) placement() types.UID {
	s.Helper()
	list, err := suite.Ours.ShardPlacements(kit.Namespace).List(s.Context(), metav1.ListOptions{})
	s.must(err)
	for i := range list.Items {
		if p := &list.Items[i]; p.Spec.Namespace == s.ns {
			return p.UID
		}
	}
	s.Fatalf("there is no ShardPlacement of %s", s.ns)
	return ""
}

// run returns the newest run of a gate.
func (s *stage) run(ctx context.Context, gate string) (*v1alpha1.GateRun, error) {
	got, err := suite.Ours.CanaryGates(s.ns).Get(ctx, gate, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if got.Status.Run == nil {
		return nil, kit.NotYet("gate %s has no run", gate)
	}
	return got.Status.Run, nil
}

// continues waits until the open run knows of as many requests of the canary.
func (s *stage) continues(requests int64) *v1alpha1.GateRun {
	s.Helper()
	var run *v1alpha1.GateRun
	s.must(kit.Wait(s.Context(), 3*time.Minute, "the evidence of an open run", func(ctx context.Context) error {
		var err error
		if run, err = s.run(ctx, goesOn); err != nil {
			return err
		}
		if run.CompletionTime != nil || run.Report == nil || run.Report.Canary.Requests < requests {
			return kit.NotYet("want more than %d requests of the canary: %s", requests, compact(run))
		}
		return nil
	}))
	return run
}

// unchanged checks that no shard moved, that the gate's verdict stands, and that the open run goes on with what it had.
func (s *stage) unchanged() {
	s.Helper()
	if now := s.scene.owners(s.app, canaryPercent); !maps.Equal(now, s.owners) {
		s.Errorf("shards moved: %v, before %v", now, s.owners)
	}
	if plan := s.placement(); plan != s.plan {
		s.Errorf("the plan is another one: %s, before %s", plan, s.plan)
	}
	before := s.open
	s.open = s.continues(before.Report.Canary.Requests + 1)
	if s.open.ID != before.ID || !s.open.StartTime.Equal(&before.StartTime) || s.open.Canary != before.Canary {
		s.Errorf("the open run began anew: %s, before %s", compact(s.open), compact(before))
	}
	decided, err := s.run(s.Context(), decides)
	s.must(err)
	if decided.ID != s.decided.ID || decided.Verdict != s.decided.Verdict || !decided.CompletionTime.Equal(s.decided.CompletionTime) {
		s.Errorf("the verdict is another one: %s, before %s", compact(decided), compact(s.decided))
	}
	say("%s: no shard moved; run %s has %d requests of the canary, %d before; the verdict is still %s", s.Name(),
		s.open.ID, s.open.Report.Canary.Requests, before.Report.Canary.Requests, decided.Verdict)
}

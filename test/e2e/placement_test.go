//go:build e2e

package e2e

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// TestPlacement rolls a canary out on Pekko with the client library, and back. At each step, the canary has exactly its
// percentage of the 100 shards, and no shard has moved that did not have to.
func TestPlacement(t *testing.T) {
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
			s := emptyScene(t)
			app := s.pekko()
			app.Annotations = map[string]string{v1alpha1.AnnotationPlacement: string(v1alpha1.PlacementEnforce)}
			// Two of three pods that end at once may take Pekko's majority with them.
			app.Tagged = true
			app.Env = map[string]string{"PLACEMENT": "true", "APP_VERSION": version[0]}
			s.must(suite.DeployCart(t.Context(), app))
			clients, err := suite.Clients(t.Context(), app)
			s.must(err)
			// With 15 carts for each shard, all shards are allocated.
			clients.Carts = 1500
			s.must(clients.SendUntil(t.Context(), app.Stable()))
			s.must(clients.Send(t.Context(), clients.Carts))
			before := s.owners(app, 0)

			s.must(suite.ReleaseCanary(t.Context(), app, map[string]string{"APP_VERSION": version[1]}))
			steps := []step{{0, 0}, {5, 5}, {20, 15}, {0, 20}}
			if suite.full {
				steps = []step{{0, 0}, {5, 5}, {20, 15}, {50, 30}, {100, 50}, {0, 100}}
			}
			for _, step := range steps {
				s.must(suite.SplitCart(t.Context(), app, int64(step.percent)))
				begun := time.Now()
				after := s.owners(app, step.percent)
				moves := 0
				for shard, owner := range before {
					if after[shard] != owner {
						moves++
					}
				}
				t.Logf("%d %%: %d moves, %s after the split was in effect", step.percent, moves, time.Since(begun).Round(time.Second))
				if moves != step.moves {
					t.Errorf("%d %%: %d shards moved, want %d", step.percent, moves, step.moves)
				}
				before = after
				if step.percent == 5 {
					s.handles(app, 5)
				}
			}
		})
	}
}

// step of a rollout: the canary's percentage, and how many of the 100 shards have to move.
type step struct{ percent, moves int }

// owners waits until the canary has a number of the 100 shards, and the stable Revision all others.
func (s *scene) owners(app *kit.Cart, canary int) map[string]kit.ShardOwner {
	s.Helper()
	var owners map[string]kit.ShardOwner
	s.must(kit.Wait(s.Context(), 3*time.Minute, "the planned owners", func(ctx context.Context) error {
		now, err := suite.PekkoOwners(ctx, app)
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

// handles checks which part of the requests the canary handles. Carts are not spread evenly over shards.
func (s *scene) handles(app *kit.Cart, percent float64) {
	s.Helper()
	clients, err := suite.Clients(s.Context(), app)
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

// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// quiet is how long no shard may move before a rollout's step counts as over. Pekko looks for shards to move every 10
// s.
const quiet = 25 * time.Second

// TestPlacementCompared measures what a canary of 5 % and then 20 % handles with the runtimes' own placement, and with
// the plan and the client libraries, under load, in one run. It proves nothing: it prints the table of
// docs/lab/benchmarks.md.
func TestPlacementCompared(t *testing.T) {
	if os.Getenv("E2E_COMPARE") == "" {
		t.Skip("it takes a quarter of an hour: make bench-placement")
	}
	var table strings.Builder
	table.WriteString("| placement | handled at 5 % | handled at 20 % | moves | in place after | requests | not answered at first | not answered |\n|---|---|---|---|---|---|---|---|\n")
	for _, c := range []struct {
		name          string
		pekko, plan   bool
		stable, other map[string]string
	}{
		{"Pekko, `app-version` set", true, false, map[string]string{"APP_VERSION": "1"}, map[string]string{"APP_VERSION": "2"}},
		{"Pekko, no `app-version`", true, false, nil, nil},
		{"Pekko, by the plan", true, true, nil, nil},
		{"protoactor-go (`disthash`)", false, false, nil, nil},
		{"protoactor-go, by the plan", false, true, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := emptyScene(t)
			app := s.placedBy(c.pekko, c.plan)
			maps.Copy(app.Env, c.stable)
			row := s.compare(app, c.other, c.pekko || c.plan)
			fmt.Fprintf(&table, "| %s | %s |\n", c.name, row)
		})
	}
	t.Logf("\n%s", table.String())
}

// placedBy returns the application on a runtime, with the runtime's own placement or with a plan.
func (s *scene) placedBy(pekko, plan bool) *kit.Cart {
	s.Helper()
	var app *kit.Cart
	if pekko {
		app = s.pekko()
	} else {
		image, err := suite.Carts.ShardedImage(s.Context())
		s.must(err)
		app = suite.Carts.Sharded(s.ns, image)
	}
	app.Tagged, app.Env = true, map[string]string{}
	if plan {
		app.Env["PLACEMENT"] = "true"
		app.Annotations = map[string]string{v1alpha1.AnnotationPlacement: string(v1alpha1.PlacementEnforce)}
		if !pekko {
			app.Annotations[v1alpha1.AnnotationManagementPort] = "9099"
		}
	}
	return app
}

// compare rolls a canary out to 20 % under load, and returns a row of the table. Located: the pods tell where shards
// are.
func (s *scene) compare(app *kit.Cart, canary map[string]string, located bool) string {
	s.Helper()
	ctx := s.Context()
	clients := s.allocate(app)
	s.must(suite.Carts.ReleaseCanary(ctx, app, canary))
	s.must(suite.Carts.WaitOneCluster(ctx, app))
	failed, sent := s.failedAtFirst(app), clients.Truth().Sent()
	stop := background(ctx, clients)
	var shares []string
	moves, took := 0, time.Duration(0)
	for _, percent := range []int64{5, 20} {
		was := map[string]kit.ShardOwner{}
		if located {
			var err error
			if was, err = suite.Carts.ShardOwners(ctx, app); err != nil {
				s.Logf("moves until the first answer are not counted: %v", err)
				was = map[string]kit.ShardOwner{}
			}
		}
		s.must(suite.Carts.Split(ctx, app, percent))
		n, after := s.movesUntilQuiet(app, located, was)
		moves, took = moves+n, max(took, after)
		shares = append(shares, s.share(app))
	}
	stop()
	truth := clients.Truth()
	s.Logf("what the clients got\n%s", truth)
	failed = s.failedAtFirst(app) - failed
	unanswered := truth.Handled[""].All()
	for _, n := range truth.Lost {
		unanswered += n
	}
	counted, in := "not known", "not known"
	if located {
		counted, in = fmt.Sprint(moves), took.Round(time.Second).String()
	}
	return fmt.Sprintf("%s | %s | %s | %d | %d | %d", strings.Join(shares, " | "), counted, in, truth.Sent()-sent, failed, unanswered)
}

// failedAtFirst is how many requests got no answer at the first attempt. Without the client library, Pekko's
// application makes one.
func (s *scene) failedAtFirst(app *kit.Cart) int {
	s.Helper()
	asks, err := suite.Carts.CountedBy(s.Context(), app, "stateful_asks_total", "outcome")
	s.must(err)
	return asks["answered_after_retry"] + asks["given_up"]
}

// movesUntilQuiet counts the shards that change their pod, until none has for a while, and says when the last one did.
func (s *scene) movesUntilQuiet(app *kit.Cart, located bool, was map[string]kit.ShardOwner) (moves int, after time.Duration) {
	s.Helper()
	begun := time.Now()
	last := begun
	for time.Since(last) < quiet && time.Since(begun) < 4*time.Minute {
		time.Sleep(2 * time.Second)
		if !located {
			continue
		}
		now, err := suite.Carts.ShardOwners(s.Context(), app)
		if err != nil {
			continue // a shard on its way may be with two pods, whose answers are from different moments
		}
		for shard, owner := range now {
			if before, known := was[shard]; known && before != owner {
				moves++
				last = time.Now()
			}
			was[shard] = owner
		}
	}
	return moves, last.Sub(begun)
}

// share is what part of 1,500 requests to as many carts the canary handles.
func (s *scene) share(app *kit.Cart) string {
	s.Helper()
	clients, err := suite.Carts.Clients(s.Context(), app)
	s.must(err)
	clients.Carts = 1500
	s.must(clients.Send(context.WithoutCancel(s.Context()), clients.Carts))
	truth := clients.Truth()
	return fmt.Sprintf("%.1f %%", 100*float64(truth.Handled[app.Canary()].All())/float64(truth.Sent()))
}

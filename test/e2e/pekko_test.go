// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// onlyInFull skips a test that takes a minute or more on a small machine, and is not a core scenario.
func onlyInFull(t *testing.T) {
	t.Helper()
	if !suite.full {
		t.Skip("it takes minutes: make e2e-full")
	}
}

func (s *scene) pekko() *kit.Cart {
	s.Helper()
	if !suite.Own() {
		s.Skip("the image is built by test/cluster")
	}
	image, err := suite.Carts.PekkoImage(s.Context())
	s.must(err)
	return suite.Carts.Pekko(s.ns, image)
}

func (s *scene) akka() *kit.Cart {
	s.Helper()
	if !suite.Own() {
		s.Skip("the image is built by test/cluster")
	}
	image, err := suite.Carts.AkkaImage(s.Context())
	s.must(err)
	app := suite.Carts.Akka(s.ns, image)
	app.Tagged = true
	return app
}

// TestPekkoApp verifies what the canary tests assume of test/pekko: one cluster of two Revisions, and correct counters.
// Its canary has a higher app-version, so Pekko gives it all new shards.
func TestPekkoApp(t *testing.T) {
	sideBySide(t)
	t.Run("AppVersionSet", func(t *testing.T) {
		s := emptyScene(t)
		app := s.pekko()
		app.Env = map[string]string{"APP_VERSION": "1"}
		s.must(suite.Carts.Deploy(t.Context(), app))
		s.must(suite.Carts.ReleaseCanary(t.Context(), app, map[string]string{"APP_VERSION": "2", "FAIL_RATE": "0.05"}))
		truth := s.canaryOfFive(app, 1500)
		if n := truth.Handled[app.Stable()].All(); n > 0 {
			t.Errorf("the stable Revision handled %d requests; all shards belong to the higher version", n)
		}
		shards, err := suite.Carts.PekkoShards(t.Context(), app)
		s.must(err)
		t.Logf("shards by Revision: %v", shards)
		if shards[app.Canary()] != 100 {
			t.Errorf("the canary has %d shards, want all 100", shards[app.Canary()])
		}
		s.sameAsCounted(app, truth)
		s.sameAsMeasured(app, truth)
	})

	// The stable Revision already had its shards; they move to the canary a few at a time.
	t.Run("NoAppVersion", func(t *testing.T) {
		onlyInFull(t)
		s := emptyScene(t)
		app := s.pekko()
		s.must(suite.Carts.Deploy(t.Context(), app))
		clients, err := suite.Carts.Clients(t.Context(), app)
		s.must(err)
		s.must(clients.SendUntil(t.Context(), app.Stable()))
		s.must(clients.Send(t.Context(), 500))
		s.must(suite.Carts.ReleaseCanary(t.Context(), app, map[string]string{"FAIL_RATE": "0.05"}))
		// Every ten seconds, Pekko checks for members with too many shards, and moves a few at a time.
		s.must(kit.Wait(t.Context(), time.Minute, "a shard on the canary", func(ctx context.Context) error {
			shards, err := suite.Carts.PekkoShards(ctx, app)
			if err != nil {
				return err
			}
			if shards[app.Canary()] == 0 {
				return kit.NotYet("the shards are %v", shards)
			}
			return nil
		}))
		truth := s.canaryOfFiveBy(app, clients, 1500)
		stable, canary := truth.Handled[app.Stable()].All(), truth.Handled[app.Canary()].All()
		if stable == 0 || canary == 0 {
			t.Errorf("the stable Revision handled %d and the canary %d: one of them has no shards", stable, canary)
		}
		s.sameAsCounted(app, truth)
		s.sameAsMeasured(app, truth)
	})
}

// TestAkkaApp verifies the same of test/akka, without an app-version.
func TestAkkaApp(t *testing.T) {
	sideBySide(t)
	onlyInFull(t)
	s := emptyScene(t)
	app := s.akka()
	s.must(suite.Carts.Deploy(t.Context(), app))
	s.must(suite.Carts.ReleaseCanary(t.Context(), app, map[string]string{"FAIL_RATE": "0.05"}))
	s.sameAsCounted(app, s.canaryOfFive(app, 500))
}

// TestPekkoSplit shows a common mistake: pods that discover only their own Revision form a cluster for each Revision.
func TestPekkoSplit(t *testing.T) {
	sideBySide(t)
	onlyInFull(t)
	s := newScene(t)
	if !suite.guest {
		s.configure(map[string]string{"incident-degraded-after": "10s"})
		s.source("source", service("sink"), production)
	}
	app := s.pekko()
	app.Env = map[string]string{"POD_LABEL_SELECTOR": "app={revision}"}
	s.must(suite.Carts.Deploy(t.Context(), app))
	s.must(suite.Carts.ReleaseCanary(t.Context(), app, map[string]string{"FAIL_RATE": "0.05"}))
	s.must(kit.Wait(t.Context(), 2*time.Minute, "two clusters", func(ctx context.Context) error {
		views, addresses, err := suite.Carts.Views(ctx, app)
		if err != nil {
			return err
		}
		var sizes []int
		for pod, view := range views {
			if !slices.Contains(view, addresses[pod]) {
				return kit.NotYet("%s is not a member of its own cluster: %v", pod, view)
			}
			sizes = append(sizes, len(view))
		}
		slices.Sort(sizes)
		if !slices.Equal(sizes, []int{1, 2, 2}) {
			return kit.NotYet("the pods see %v", views)
		}
		return nil
	}))
	if suite.guest {
		return
	}
	s.must(kit.Wait(t.Context(), 2*time.Minute, "an event about the split", func(ctx context.Context) error {
		events, err := s.sink.events(ctx)
		if err != nil {
			return err
		}
		for _, e := range events {
			if e.Header.Get("Ce-Type") == detected && strings.Contains(e.cd.Subject.ID, "/cluster-split/") {
				if !strings.Contains(string(e.Body), "serving.knative.dev/service=%s") {
					t.Errorf("it does not say how to fix it: %s", e)
				}
				return nil
			}
		}
		return kit.NotYet("received %q", typesOf(events))
	}))
}

// TestPekkoWithKamon shows what can be measured of an application without counters: the exact number of handled
// requests, from Kamon's sum per shard, and no outcomes.
func TestPekkoWithKamon(t *testing.T) {
	sideBySide(t)
	onlyInFull(t)
	s := emptyScene(t)
	app := s.pekko()
	app.Env = map[string]string{"METRICS": "kamon"}
	s.must(suite.Carts.Deploy(t.Context(), app))
	s.must(suite.Carts.ReleaseCanary(t.Context(), app, map[string]string{"FAIL_RATE": "0.05"}))
	truth := s.canaryOfFive(app, 1000)
	// Kamon's values change only at its ticks.
	s.must(kit.Wait(t.Context(), 30*time.Second, "complete totals of Kamon", func(ctx context.Context) error {
		handled, err := suite.Carts.CountedSum(ctx, app, "pekko_cluster_sharding_shard_processed_messages_sum")
		if err != nil {
			return err
		}
		for revision, want := range truth.Handled {
			if handled[revision] != want.All() {
				return kit.NotYet("totals: %v, the clients got %v", handled, truth.Handled)
			}
		}
		return nil
	}))
	if own, err := suite.Carts.CountedSum(t.Context(), app, "stateful_requests_total"); err != nil || len(own) > 0 {
		t.Errorf("the application has counters of its own: %v (error: %v)", own, err)
	}
	if suite.guest {
		return
	}
	s.must(kit.Wait(t.Context(), 4*readEvery, "complete totals of the controller", func(ctx context.Context) error {
		m, err := suite.Carts.Measured(ctx, app)
		if err != nil {
			return err
		}
		got := m.Counts("canary_handled_requests_total", "outcome")
		for revision, want := range truth.Handled {
			if o := got[revision]; o["unknown"] != want.All() || o.All() != want.All() {
				return kit.NotYet("totals: %v, the clients got %v", got, truth.Handled)
			}
			if why := m.Why(revision, "handled_requests_total"); why != "OutcomesUnknown" {
				return kit.NotYet("the reason for the missing outcomes of %s is %q", revision, why)
			}
		}
		return nil
	}))
}

// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/dashboards"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// readEvery is the default of scrape-interval. Waits allow for several intervals.
const readEvery = 15 * time.Second

// sameAsMeasured compares the controller's metrics of handled requests with the truth. No request may be in flight. The
// totals must be equal, request by request.
func (s *scene) sameAsMeasured(app *kit.Cart, truth *kit.Truth) kit.Measured {
	s.Helper()
	if suite.guest {
		return nil // there is no controller
	}
	var m kit.Measured
	s.must(kit.Wait(s.Context(), 4*readEvery, "complete totals of the controller", func(ctx context.Context) error {
		var err error
		if m, err = suite.Carts.Measured(ctx, app); err != nil {
			return err
		}
		if got := m.Counts("canary_handled_requests_total", "outcome"); !reflect.DeepEqual(got, truth.Handled) {
			return kit.NotYet("by handling Revision: %v, want %v", got, truth.Handled)
		}
		for handling, by := range m.Counts("canary_handled_requests_by_entry_total", "entry_revision_name") {
			for entry, n := range by {
				if want := truth.Matrix[entry][handling]; n != want {
					return kit.NotYet("%d entered at %s and were handled by %s, want %d", n, entry, handling, want)
				}
			}
		}
		entered := map[string]kit.Outcomes{}
		for revision, codes := range m.Counts("canary_entry_requests_total", "code_class") {
			entered[revision] = kit.Outcomes{"ok": codes["2xx"], "error": codes["5xx"]}
		}
		for revision, o := range truth.Entered {
			if got := entered[revision]; got["ok"] != o["ok"] || got["error"] != o["error"] {
				return kit.NotYet("by entry: %v, want %v", entered, truth.Entered)
			}
		}
		return nil
	}))
	return m
}

// TestCanaryAfterTheSharding measures a canary that gets 5 % of the traffic, handles a third of it, and fails 5 % of
// what it handles. Measured at the entry, both Revisions have the same error rate.
func TestCanaryAfterTheSharding(t *testing.T) {
	sideBySide(t)
	if suite.guest {
		t.Skip("it needs the controller")
	}
	s := newScene(t)
	ctx := t.Context()
	s.source("source", service("sink"), production)
	app := s.sharded()
	// A split that comes before the cluster has settled would not wait for it.
	s.sink.atLeast(t, []string{deployed}, typed(deployed))
	truth := s.canaryOfFive(app, 2000)
	m := s.sameAsMeasured(app, truth)
	t.Logf("by entry, from queue-proxy alone: %v\nby handling: %v", m.Counts("canary_entry_requests_total", "code_class"), m.Counts("canary_handled_requests_total", "outcome"))

	total := float64(truth.Sent())
	for revision, want := range map[string]struct{ required, members float64 }{app.Stable(): {0.95, 2}, app.Canary(): {0.05, 1}} {
		handled := truth.Handled[revision].All()
		for family, want := range map[string]float64{
			"canary_traffic_share_ratio": want.required, "canary_handled_share_ratio": float64(handled) / total, "canary_cluster_members": want.members,
			"canary_handled_request_duration_seconds": float64(handled), "canary_unaccounted_requests": 0,
		} {
			if got, err := m.Value(family, revision); err != nil || math.Abs(got-want) > 0.01 {
				t.Errorf("%s of %s is %v, want %v (%v)", family, revision, got, want, err)
			}
		}
	}
	shards := 0
	for _, held := range m.Counts("canary_cluster_shards", "entity_type") {
		shards += held.All()
	}
	if shards != 100 {
		t.Errorf("the Revisions hold %d shards, want 100: %v", shards, m["canary_cluster_shards"])
	}

	// Rates need current traffic: all of the traffic so far may precede the first scrape.
	stop := s.sendTo(app)
	s.dashboards(app, slices.Concat(unplaced, delivered, grantless, known, []string{
		// The traffic may be split before Prometheus reads the first share; TestBadRelease shows a split that changes.
		"annotation Traffic",
		// There is no gate. The verdict has no column of its own in the table of Services.
		"Gates", "annotation Verdicts", "Services: ", "Changes that failed", "Lead time of changes", "Time to restore service",
		"Releases, and what failed: canary stopped", "Releases, and what failed: rolled back or down",
		"By Service: Stopped", "By Service: Failed", "By Service: Fail rate", "By Service: Lead time", "By Service: Time to restore",
	})...)
	stop()

	// The cluster's own events come among those of the Service, in order of occurrence.
	events := s.eventsWith(clusterSettled)
	if f, d := find(events, clusterFormed), find(events, deployed); f < 0 || f > d || find(events, clusterSettled) > d {
		t.Errorf("the Service was deployed before its cluster had settled: %q", typesOf(events))
	}
	s.must(suite.Services.Delete(ctx, s.ns, "cart"))
	s.eventsWith(removed, clusterGone)
}

// dashboards runs every query of the dashboards on the cluster's Prometheus. Each one must have had data in the last
// minutes, unless empty names its dashboard, its panel or its column: that is about something that has not happened
// here.
func (s *scene) dashboards(app *kit.Cart, empty ...string) {
	s.Helper()
	if !suite.Own() {
		s.Log("the dashboards are checked only with the Prometheus of test/cluster")
		return
	}
	queries := dashboards.Queries(dashboards.Values{Namespace: app.Namespace, Service: "cart", Environment: "default"})
	used, silent := map[string]bool{}, 0
	s.must(kit.Wait(s.Context(), 12*readEvery, "data for every query of the dashboards", func(ctx context.Context) error {
		silent = 0
		for _, q := range queries {
			series, err := suite.Prometheus.Query(ctx, "last_over_time(("+q.Expr+")[10m:10s])")
			if err != nil {
				return err
			}
			names := []string{q.Dashboard, q.Panel, q.Panel + ": " + q.Column + q.Legend}
			i := slices.IndexFunc(empty, func(e string) bool { return slices.Contains(names, e) })
			switch {
			case i >= 0:
				used[empty[i]] = true
				silent++
			case len(series) == 0:
				return kit.NotYet("%s, %s: no data for %s", q.Dashboard, q.Panel, q.Expr)
			}
		}
		return nil
	}))
	for _, e := range empty {
		if !used[e] {
			s.Errorf("no dashboard has %q, which is said to be empty", e)
		}
	}
	s.Logf("Prometheus has data for %d of the %d queries of the dashboards", len(queries)-silent, len(queries))
}

// What the dashboards show of a Service without placement whose events are all accepted. Figures may be missing, and
// need not.
var (
	unplaced  = []string{"Required and real shards", "Moves of shards"}
	delivered = []string{"Attempts that failed", "Incomplete events", "Dropped events", "Dead letters", "Polls of clusters: pods not polled"}
	grantless = []string{"Environments by kind", "Kinds that can be read", "Events of environments"}
	known     = []string{"What is not known, and why", "Figures that are not known"}
)

// The types of the events of stateful clusters.
const (
	clusterFormed     = "dev.cdeventsx.stateful-cluster.formed.0.1.0"
	clusterRebalanced = "dev.cdeventsx.stateful-cluster.rebalanced.0.1.0"
	clusterSettled    = "dev.cdeventsx.stateful-cluster.settled.0.1.0"
	clusterGone       = "dev.cdeventsx.stateful-cluster.removed.0.1.0"
)

// eventsWith waits until an event of each type has arrived, and returns all events.
func (s *scene) eventsWith(types ...string) []event {
	s.Helper()
	var all []event
	s.must(kit.Wait(s.Context(), 2*time.Minute, "events of a stateful cluster", func(ctx context.Context) error {
		var err error
		if all, err = s.sink.events(ctx); err != nil {
			return err
		}
		for _, typ := range types {
			if find(all, typ) < 0 {
				return kit.NotYet("received %q, want %q", typesOf(all), types)
			}
		}
		return nil
	}))
	for _, e := range all {
		conforms(s.T, e, "0.5.1")
		if strings.HasPrefix(e.Header.Get("Ce-Type"), "dev.cdeventsx.stateful-cluster.") {
			capture(s.T, e)
		}
	}
	return all
}

// find returns the index of the first event of a type; -1 if there is none.
func find(all []event, typ string) int {
	return slices.IndexFunc(all, typed(typ))
}

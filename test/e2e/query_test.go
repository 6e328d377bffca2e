// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// The operator's queries: what the application counts by the Revision that handled a request, what enters, and one with
// a typo.
const (
	handledQuery = `
total: sum(last_over_time(stateful_requests_total{namespace={{namespace}}, service={{service}}, revision={{revision}}}[1d]))
bad: |
  sum(last_over_time(stateful_requests_total{namespace={{namespace}}, revision={{revision}}, outcome="error"}[1d]))
  or 0 * sum(last_over_time(stateful_requests_total{namespace={{namespace}}, revision={{revision}}}[1d]))
`
	enteredQuery = `
total: sum(last_over_time(http_server_request_duration_seconds_count{namespace={{namespace}}, revision={{revision}}}[1d]))
bad: |
  sum(last_over_time(http_server_request_duration_seconds_count{namespace={{namespace}}, revision={{revision}}, http_response_status_code="418"}[1d]))
  or 0 * sum(last_over_time(http_server_request_duration_seconds_count{namespace={{namespace}}, revision={{revision}}}[1d]))
`
	typoQuery = `
total: sum(stateful_requests_totall{namespace={{namespace}}, revision={{revision}}})
bad: sum(stateful_requests_total{namespace={{namespace}}, revision={{revision}}, outcome="error"})
`
)

// TestOwnQueries judges the sharded application as if it were an ordinary one, so that only a query of the operator's,
// to the real Prometheus, knows that the canary fails a fifth of what it handles.
func TestOwnQueries(t *testing.T) {
	onlyInFull(t)
	if suite.guest || !suite.Own() {
		t.Skip("it needs the controller and the Prometheus of the cluster made by test/cluster")
	}
	s := emptyScene(t)
	ctx := t.Context()
	at, err := suite.Prometheus.URL()
	s.must(err)
	t.Cleanup(func() {
		s.must(suite.Controller.Configure(context.WithoutCancel(ctx), "config-canary", map[string]string{"prometheus-url": "", "query.handled": "", "query.entered": "", "query.typo": ""}))
	})
	s.must(suite.Controller.Configure(ctx, "config-canary", map[string]string{"prometheus-url": at, "query.handled": handledQuery, "query.entered": enteredQuery, "query.typo": typoQuery}))
	// A wrong query is refused, and the one before stays in force.
	err = suite.Controller.Configure(ctx, "config-canary", map[string]string{"query.handled": strings.ReplaceAll(handledQuery, "last_over_time", "increase")})
	if err == nil || !strings.Contains(err.Error(), "query.handled: total: increase() is not allowed") {
		t.Errorf("a wrong query: %v", err)
	}
	t.Log(err)

	image, err := suite.Carts.ShardedImage(ctx)
	s.must(err)
	app := suite.Carts.Sharded(s.ns, image)
	app.Annotations = map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9099", "prometheus.io/path": "/metrics"}
	for _, a := range []string{"runtime", "metrics-port", "metrics-path", "entity-types", "shards", "calls-per-request"} {
		app.Annotations["stateful.knative-cdevents.dev/"+a] = ""
	}
	s.must(suite.Carts.Deploy(ctx, app))
	s.must(suite.Carts.ReleaseCanary(ctx, app, map[string]string{"FAIL_RATE": "0.2"}))
	want := map[string]struct {
		verdict verdict.Verdict
		reason  string
		timeout string
	}{
		// Nothing is known of the past of a query, so the limit is tested by bets on minutes: about seven of them.
		"handled": {verdict.Fail, string(verdict.AbsoluteLimit), "15m"},
		"entered": {verdict.Pass, string(verdict.Negligible), "2m"},
		"typo":    {verdict.Inconclusive, gaterun.QueryUnusable, "2m"},
		"unknown": {verdict.Inconclusive, gaterun.QueryUnknown, "2m"},
	}
	for name, w := range want {
		gate := &v1alpha1.CanaryGate{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}}
		s.must(json.Unmarshal([]byte(`{"spec": {"service": "cart", "watch": true,
			"schedule": {"warmup": "5s", "interval": "5s", "minDuration": "15s", "timeout": "`+w.timeout+`"},
			"minimum": {"canaryRequests": 50, "baselineRequests": 50},
			"metrics": [{"type": "Query", "query": "`+name+`", "limit": 0.04, "negligible": 0.02}]}}`), gate))
		_, err := suite.Ours.CanaryGates(s.ns).Create(ctx, gate, metav1.CreateOptions{})
		s.must(err)
	}
	s.must(suite.Carts.WaitOneCluster(ctx, app))
	s.must(suite.Carts.Split(ctx, app, 40))
	defer s.sendTo(app)()
	for name, w := range want {
		var run *v1alpha1.GateRun
		s.must(kit.Wait(ctx, 16*time.Minute, "the verdict of gate "+name, func(ctx context.Context) error {
			got, err := suite.Ours.CanaryGates(s.ns).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if run = got.Status.Run; run == nil || run.CompletionTime == nil {
				return kit.NotYet("the status is %s", compact(got.Status))
			}
			return nil
		}))
		t.Logf("%s: %s %v: %s", name, run.Verdict, run.Reasons, run.Message)
		if run.Verdict != w.verdict || !slices.Contains(run.Reasons, w.reason) {
			t.Errorf("%s: the run ended as %s", name, compact(run))
		}
	}
}

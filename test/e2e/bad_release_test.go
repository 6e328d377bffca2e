// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// TestBadRelease walks the path of docs/bad-release.md, and takes its pictures: a canary of a sharded application fails
// a share of what it handles. This is noticed on the page, explained by the plugin, ended by the runbook of its alert,
// found in a trace, and counted.
func TestBadRelease(t *testing.T) {
	onlyInFull(t)
	if suite.guest || !suite.Own() {
		t.Skip("it needs the controller and the Prometheus of the cluster made by test/cluster")
	}
	w := newWatched(t)
	a := w.album()
	ctx := t.Context()
	c := w.tracing()
	began := time.Now()
	w.source("releases", service("sink"), production)
	app := w.judgedCart()
	address, end := a.dashboard()
	defer end()
	w.must(suite.Carts.Split(ctx, app, 10))
	stop := w.sendTo(app)
	run := w.verdict()
	if run.Verdict != verdict.Fail {
		t.Fatalf("the gate says %s: %s", run.Verdict, run.Message)
	}

	// A source's status is up to ten seconds old.
	w.must(kit.Wait(ctx, time.Minute, "the delivery of the verdict", func(ctx context.Context) error {
		got, err := suite.Ours.CDEventSources(w.ns).Get(ctx, "releases", metav1.GetOptions{})
		if err == nil && (got.Status.LastDelivery == nil || got.Status.LastDelivery.Time.Before(run.CompletionTime.Time)) {
			return kit.NotYet("the last delivery was at %s, and the run ended at %s", got.Status.LastDelivery, run.CompletionTime)
		}
		return err
	}))

	// Noticed: the page says that something needs attention, and what.
	a.take("fleet", shot{URL: address, Selector: "main", Words: []string{"cart", "What needs attention", "has failed, and still gets 10 % of the traffic"}})
	a.take("page", shot{URL: address + "#/" + w.ns + "/cart", Selector: "main", Width: 1100, Most: 985, Words: []string{"Fail", "10 % " + app.Canary()}})

	// Explained.
	a.terminal("gate", 500, a.types("cart", "kubectl cdevents gate $NAME -n $NS"), "Fail: RelativeRegression", "share it handled", "ErrorRate")
	a.terminal("why", 0, a.types("cart", "kubectl cdevents why $NAME -n $NS"), "has failed, and still gets 10 % of the traffic", "kubectl patch ksvc cart")

	// The alert, and its runbook.
	of := labels{"k8s_namespace_name": w.ns, "kn_service_name": "cart", "gate": "cart"}
	w.fires("CanaryFailed", of)
	w.looks("CanaryFailed", "cart", "Fail", "has failed, and still gets 10 % of the traffic")
	at, err := suite.Prometheus.URL()
	w.must(err)
	a.take("alert", shot{URL: at + "/classic/alerts", Words: []string{"CanaryFailed (1 active)"}, Width: 900, Press: ".alert-danger.alert_header", Hide: "tr.alert-success"})
	w.withdraws("cart")
	w.sink.atLeast(t, []string{rolledBack}, typed(rolledBack))
	w.resolves("CanaryFailed", of)
	closed := a.types("cart", "kubectl cdevents why -n $NS", "kubectl cdevents history $NAME -n $NS")
	a.terminal("after", 0, closed, "Nothing is wrong", "service.rolledback")

	// Found: one trace, from the build to the rollback.
	id, spans := w.traced(c, app.Canary(), "build", "knative-revision.ready", "traffic shifted: ", "gate cart", "service.rolledback", "rollout of "+app.Canary(), "send to ")
	for _, name := range []string{"gate cart", "rollout of " + app.Canary()} {
		if i := slices.IndexFunc(spans, func(s kit.Span) bool { return s.Name == name }); !spans[i].Failed {
			t.Errorf("span %q is not an error", name)
		}
	}
	a.trace("trace", id, spans, "rollout of "+app.Canary())

	// Counted.
	w.figures(map[string]float64{
		`sum(dora_deployments_total{outcome="completed",%s})`: 1, `sum(dora_deployments_total{outcome="stopped",%s})`: 1,
		`sum(dora_change_failures_total{outcome="stopped",%s})`: 1, `sum(dora_time_to_restore_seconds_count{%s})`: 1,
		`sum(dora_change_lead_time_seconds_count{%s})`: 1,
	})
	// The split is over.
	w.dashboards(app, slices.Concat(unplaced, delivered, grantless, known, []string{
		"By Service: Failed", "Releases, and what failed: rolled back or down", "Handled share, how far from the Route, the ten furthest",
	})...)
	stop()
	var shown string
	for until := time.Now().Add(3 * time.Minute); ; time.Sleep(5 * time.Second) {
		shown = a.board("dora", "dora", began, map[string]string{"namespace": w.ns})
		// A bar is a minute that is over.
		if strings.Contains(shown, "--- stopped") || time.Now().After(until) {
			break
		}
	}
	for _, want := range []string{"--- completed", "--- stopped", "cart"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the dashboard does not show %q:\n%s", want, shown)
		}
	}
}

// judgedCart deploys the sharded application with a gate, and with a canary that fails 5 % of what it handles. Its
// pipeline says when it began, and when the change was committed.
func (w *watched) judgedCart() *kit.Cart {
	w.Helper()
	image, err := suite.Carts.ShardedImage(w.Context())
	w.must(err)
	app := suite.Carts.Sharded(w.ns, image)
	app.Annotations = map[string]string{"cdevents.knative-cdevents.dev/commit-time": ago(25 * time.Minute), "cdevents.knative-cdevents.dev/pipeline-started": ago(3 * time.Minute)}
	w.must(suite.Carts.Deploy(w.Context(), app))
	w.sink.atLeast(w.T, []string{deployed}, typed(deployed))
	app.CanaryAnnotations = map[string]string{"cdevents.knative-cdevents.dev/commit-time": ago(20 * time.Minute), "cdevents.knative-cdevents.dev/pipeline-started": ago(2 * time.Minute)}
	w.must(suite.Carts.ReleaseCanary(w.Context(), app, map[string]string{"FAIL_RATE": "0.05"}))
	w.watches("4m")
	w.must(suite.Carts.WaitOneCluster(w.Context(), app))
	return app
}

var patch = regexp.MustCompile(`do +Give its traffic to .* Run: (kubectl patch ksvc .*)`)

// withdraws runs the command that "why" prints, as the runbook says.
func (w *watched) withdraws(gate string) {
	w.Helper()
	out, err := w.shell(w.Context(), "kubectl cdevents why gate/$NAME -n $NS", gate)
	w.must(err)
	found := patch.FindStringSubmatch(out)
	if found == nil {
		w.Fatalf("it does not say how to end it: %s", out)
	}
	said, err := w.shell(w.Context(), found[1], gate)
	w.Logf("$ %s\n%s", found[1], said)
	w.must(err)
}

// figures waits until queries have these results. %s stands for the labels of Service cart.
func (w *watched) figures(want map[string]float64) {
	w.Helper()
	for expr, value := range want {
		expr = fmt.Sprintf(expr, fmt.Sprintf(`k8s_namespace_name=%q,kn_service_name="cart"`, w.ns))
		w.must(kit.Wait(w.Context(), time.Minute, expr, func(ctx context.Context) error {
			got, err := suite.Prometheus.Query(ctx, expr)
			if err == nil && (len(got) != 1 || fmt.Sprint(got[0].Value[1]) != strconv.FormatFloat(value, 'f', -1, 64)) {
				return kit.NotYet("it is %v, and not %v", got, value)
			}
			return err
		}))
		w.Logf("%s is %v", expr, value)
	}
}

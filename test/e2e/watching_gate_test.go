// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

const judged = "dev.cdevents.testcaserun.finished.0.3.0"

// TestGateThatWatches: without Tekton, a gate opens a run by itself and detects a canary of the sharded application
// that fails 5 % of what it handles. The verdict is in the gate's status, in an event, and available over HTTP.
func TestGateThatWatches(t *testing.T) {
	sideBySide(t)
	if suite.guest {
		t.Skip("it needs the controller")
	}
	s := newScene(t)
	ctx := t.Context()
	s.source("source", service("sink"), production)
	app := s.sharded()
	s.watches("4m")
	s.must(suite.Carts.WaitOneCluster(ctx, app))
	s.must(suite.Carts.Split(ctx, app, 10))
	s.must(suite.Carts.WaitOneCluster(ctx, app))
	stop := s.sendTo(app)

	run := s.verdict()
	// Over HTTP, the verdict is valid while its split is in effect.
	if suite.Own() {
		s.served(run)
	}
	stop()
	if run.Report == nil {
		t.Fatalf("the run ended without a report: %s", compact(run))
	}
	if run.Verdict != verdict.Fail || run.Canary.Name != app.Canary() || run.Baseline.Name != app.Stable() || run.Report.Canary.Requests < 100 {
		t.Errorf("the run ended as %s", compact(run))
	}
	s.sink.atLeast(t, []string{judged}, typed(judged))
	events, err := s.sink.events(ctx)
	s.must(err)
	e := events[find(events, judged)]
	conforms(t, e, "0.5.1")
	capture(t, e)
	var said struct {
		Subject    struct{ Content struct{ Outcome string } }
		CustomData struct {
			Gate struct {
				Run            string
				Verdict        verdict.Verdict
				CanaryRequests int64
			}
		}
	}
	s.must(json.Unmarshal(e.Body, &said))
	if g := said.CustomData.Gate; said.Subject.Content.Outcome != "failure" || g.Run != run.ID || g.Verdict != run.Verdict || g.CanaryRequests != run.Report.Canary.Requests {
		t.Errorf("the event is %s, the run is %s", e.Body, compact(run))
	}
}

// TestGateOfACanaryThatTookEverything: Pekko gives all shards to the higher version, whatever the Route says. No
// baseline is left to compare with, and at the entry both Revisions look equally good: the canary must not pass.
func TestGateOfACanaryThatTookEverything(t *testing.T) {
	sideBySide(t)
	onlyInFull(t)
	if suite.guest {
		t.Skip("it needs the controller")
	}
	s := emptyScene(t)
	ctx := t.Context()
	app := s.pekko()
	app.Env = map[string]string{"APP_VERSION": "1"}
	s.must(suite.Carts.Deploy(ctx, app))
	s.must(suite.Carts.ReleaseCanary(ctx, app, map[string]string{"APP_VERSION": "2", "FAIL_RATE": "0.05"}))
	s.watches("1m")
	s.must(suite.Carts.WaitOneCluster(ctx, app))
	s.must(suite.Carts.Split(ctx, app, 5))
	s.must(suite.Carts.WaitOneCluster(ctx, app))
	defer s.sendTo(app)()
	run := s.verdict()
	undecided := run.Verdict == verdict.Inconclusive && slices.Contains(run.Reasons, string(verdict.BaselineMissing))
	if run.Verdict != verdict.Fail && !undecided {
		t.Errorf("the run ended as %s", compact(run))
	}
}

// watches creates a gate for Service cart that opens its runs by itself.
func (s *scene) watches(timeout string) {
	s.Helper()
	s.watchesFor("cart", "15s", timeout)
}

// watchesFor creates a gate with a name that decides after a while.
func (s *scene) watchesFor(name, minDuration, timeout string) {
	s.Helper()
	gate := &v1alpha1.CanaryGate{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}}
	s.must(json.Unmarshal([]byte(`{"spec": {"service": "cart", "watch": true,
		"schedule": {"warmup": "5s", "interval": "5s", "minDuration": "`+minDuration+`", "timeout": "`+timeout+`"},
		"minimum": {"canaryRequests": 100, "baselineRequests": 100}}}`), gate))
	_, err := suite.Ours.CanaryGates(s.ns).Create(s.Context(), gate, metav1.CreateOptions{})
	s.must(err)
}

// verdict waits until the gate's run has ended.
func (s *scene) verdict() *v1alpha1.GateRun {
	s.Helper()
	var run *v1alpha1.GateRun
	s.must(kit.Wait(s.Context(), 9*time.Minute, "a verdict", func(ctx context.Context) error {
		got, err := suite.Ours.CanaryGates(s.ns).Get(ctx, "cart", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if run = got.Status.Run; run == nil || run.CompletionTime == nil {
			return kit.NotYet("the status is %s", compact(got.Status))
		}
		return nil
	}))
	s.Logf("%s %v: %s", run.Verdict, run.Reasons, run.Message)
	return run
}

// sendTo sends requests to the sharded application until the returned function is called.
func (s *scene) sendTo(app *kit.Cart, with ...func(*kit.Clients)) (stop func()) {
	s.Helper()
	clients, err := suite.Carts.Clients(s.Context(), app)
	s.must(err)
	for _, set := range with {
		set(clients)
	}
	s.must(clients.SendUntil(s.Context(), app.Stable()))
	sending, cancel := context.WithCancel(s.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for sending.Err() == nil {
			_ = clients.Send(sending, 50) // ended by stop
			time.Sleep(200 * time.Millisecond)
		}
	}()
	return func() {
		cancel()
		<-done
		s.Logf("what the clients got\n%s", clients.Truth())
	}
}

// served requests the verdict from a replica, as Argo and Flagger do.
func (s *scene) served(run *v1alpha1.GateRun) {
	s.Helper()
	ctx := s.Context()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "verdicts"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"canarygates"}, Verbs: []string{"get"}}},
	}
	_, err := suite.Kube.RbacV1().Roles(s.ns).Create(ctx, role, metav1.CreateOptions{})
	s.must(err)
	_, err = suite.Kube.RbacV1().RoleBindings(s.ns).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.ns, Name: "default"}},
	}, metav1.CreateOptions{})
	s.must(err)
	token := func(audience string) string {
		got, err := suite.Kube.CoreV1().ServiceAccounts(s.ns).CreateToken(ctx, "default", &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}},
		}, metav1.CreateOptions{})
		s.must(err)
		return got.Status.Token
	}
	pods, err := suite.Controller.Pods(ctx)
	s.must(err)
	for _, c := range []struct {
		method, audience string
		status           int
	}{
		{http.MethodGet, "knative-cdevents", http.StatusOK},
		{http.MethodPost, "knative-cdevents", http.StatusConflict},
		{http.MethodGet, "somebody-else", http.StatusUnauthorized},
	} {
		url := fmt.Sprintf("http://%s:8081/v1/gates/%s/cart", pods[0].Status.PodIP, s.ns)
		req, err := http.NewRequestWithContext(ctx, c.method, url, nil)
		s.must(err)
		req.Header.Set("Authorization", "Bearer "+token(c.audience))
		resp, err := http.DefaultClient.Do(req)
		s.must(err)
		var body struct{ Verdict verdict.Verdict }
		err = json.NewDecoder(resp.Body).Decode(&body)
		s.must(resp.Body.Close())
		if resp.StatusCode != c.status || err != nil || c.status != http.StatusUnauthorized && body.Verdict != run.Verdict {
			s.Errorf("%s %s with a token for %s: %s, %+v (%v), want %d", c.method, url, c.audience, resp.Status, body, err, c.status)
		}
	}
}

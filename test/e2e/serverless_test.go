// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// TestServerless switches the installation to the serverless mode and back. In between, a Service is deployed, changed
// and deleted while neither the controller nor a core runs; the doorbell and a core are killed while something is to be
// told; and the sink is down when the mode changes. Every event comes once, or again with the same bytes.
func TestServerless(t *testing.T) {
	onlyInFull(t)
	if suite.installed || suite.guest {
		t.Skip("it changes the installation")
	}
	// Nobody else may need the controller meanwhile.
	suite.undisturbed.Lock()
	t.Cleanup(suite.undisturbed.Unlock)
	s := newScene(t)
	s.source("source", service("sink"))
	s.deploy("shop")
	s.sink.exactly(t, birth, about("shop"))

	back := s.switchToServerless(kit.AsService)
	s.must(suite.Serverless.WaitAsleep(t.Context()))
	s.sink.exactly(t, birth, about("shop")) // nothing is told again

	t.Run("FromZero", func(t *testing.T) { s.fromZero(t) })
	t.Run("Killed", func(t *testing.T) { s.killed(t) })
	t.Run("SinkIsDead", serverlessDead)
	t.Run("Behind", serverlessBehind)
	t.Run("Start", serverlessStart)
	t.Run("Back", func(t *testing.T) { s.back(t, back) })
	s.sameBytes()
	s.readsOnly()
}

// upgrade has a Service run another version, and returns the events that follow from it.
func (s *scene) upgrade(name, version string) []string {
	s.Helper()
	s.must(suite.Services.Update(s.Context(), s.ns, name, func(svc *servingv1.Service) { kit.SetVersion(svc, version) }))
	return []string{revisionReady, upgraded}
}

// switchToServerless installs a form of the serverless mode. It returns a function that switches back.
func (s *scene) switchToServerless(form kit.Form) (back func(context.Context) error) {
	s.Helper()
	d, err := suite.Controller.Deployment(s.Context())
	s.must(err)
	replicas, done := int(*d.Spec.Replicas), false
	back = func(ctx context.Context) error {
		// In this order, there is no moment at which nothing watches.
		if err := suite.Controller.Scale(ctx, replicas); err != nil {
			return err
		}
		if err := suite.Serverless.Uninstall(ctx, form); err != nil {
			return err
		}
		done = true
		return suite.Controller.Configure(ctx, "config-canary", map[string]string{"sleep-after": ""})
	}
	s.Cleanup(func() {
		// The next test needs a controller, whatever happened to this one.
		ctx := context.WithoutCancel(s.Context())
		if s.Failed() {
			s.Log(suite.Serverless.Log(ctx, 40))
		}
		if !done {
			if err := back(ctx); err != nil {
				s.Error(err)
			}
		}
	})
	s.must(suite.Controller.Configure(s.Context(), "config-canary", map[string]string{"sleep-after": "1m"}))
	s.must(suite.Serverless.Install(s.Context(), form))
	return back
}

// fromZero lets things happen while nothing of ours runs but the doorbell.
func (s *scene) fromZero(t *testing.T) {
	began := time.Now()
	want := slices.Concat(birth, s.upgrade("shop", "two"))
	s.sink.exactly(t, want, about("shop"))
	say("from zero, an upgrade is told %s after it was asked for", took(began))
	s.deploy("till")
	s.sink.exactly(t, birth, about("till"))
	s.must(suite.Serverless.WaitAsleep(t.Context()))
	s.must(suite.Services.Delete(t.Context(), s.ns, "till"))
	s.sink.exactly(t, slices.Concat(birth, []string{removed}), about("till"))
	if d, err := suite.Controller.Deployment(t.Context()); err != nil || *d.Spec.Replicas != 0 {
		t.Errorf("nothing was to be measured, and the controller was woken: %v, %v", d.Annotations, err)
	}
}

// killed kills the doorbell while something changes, and a core while it tells.
func (s *scene) killed(t *testing.T) {
	s.must(suite.Serverless.WaitAsleep(t.Context()))
	kill := func(what string, find func(context.Context) ([]corev1.Pod, error)) {
		t.Helper()
		s.must(kit.Wait(t.Context(), 2*time.Minute, what+" to kill", func(ctx context.Context) error {
			pods, err := find(ctx)
			if err != nil {
				return err
			}
			for i := range pods {
				if pods[i].Status.Phase == corev1.PodRunning {
					now := int64(0)
					return suite.Controller.Delete(ctx, pods[i].Name, &now)
				}
			}
			return kit.NotYet("%d pods, none of which runs", len(pods))
		}))
	}
	kill("a doorbell", suite.Serverless.Doorbells)
	want := slices.Concat(birth, []string{revisionReady, upgraded}, s.upgrade("shop", "three"))
	s.must(suite.Serverless.WaitDoorbell(t.Context()))
	s.sink.exactly(t, want, about("shop"))

	s.must(s.sink.fault(t.Context(), `{"status":503,"count":2}`))
	want = append(want, s.upgrade("shop", "four")...)
	kill("a core", suite.Serverless.Cores)
	s.must(kit.Wait(t.Context(), 5*time.Minute, "the events after a core was killed", func(ctx context.Context) error {
		all, err := s.sink.events(ctx)
		if err != nil {
			return err
		}
		if got := choose(all, about("shop"), accepted); len(got) < len(want) {
			return kit.NotYet("%d of %d events were accepted", len(got), len(want))
		}
		return nil
	}))
}

// back switches back while the sink is down, so that the controller has to send what a core could not.
func (s *scene) back(t *testing.T, back func(context.Context) error) {
	s.deploy("last")
	s.sink.exactly(t, birth, about("last"))
	s.must(s.sink.fault(t.Context(), `{"status":503,"count":4}`))
	want := slices.Concat(birth, s.upgrade("last", "two"))
	s.must(back(t.Context()))
	s.must(suite.Controller.WaitLeader(t.Context()))
	s.must(kit.Wait(t.Context(), 3*time.Minute, "the events after the mode was switched back", func(ctx context.Context) error {
		all, err := s.sink.events(ctx)
		if err != nil {
			return err
		}
		if got := typesOf(choose(all, about("last"), accepted)); !slices.Equal(slices.Compact(got), want) {
			return kit.NotYet("accepted are %v, want %v", got, want)
		}
		return nil
	}))
	s.upgrade("last", "three")
	s.sink.atLeast(t, []string{revisionReady, upgraded}, about("last"))
}

// sameBytes checks that an event that came again is the same one.
func (s *scene) sameBytes() {
	s.Helper()
	all, err := s.sink.events(s.Context())
	s.must(err)
	bodies := map[string]string{}
	for _, e := range all {
		if had, again := bodies[e.cd.Context.ID]; again && had != string(e.Body) {
			s.Errorf("%s came again with another body:\n%s\nthe first was\n%s", e.cd.Context.ID, e.Body, had)
		}
		bodies[e.cd.Context.ID] = string(e.Body)
	}
}

// readsOnly checks in the API server's audit log that core and doorbell wrote what is ours, and nothing else.
func (s *scene) readsOnly() {
	s.Helper()
	if suite.audit == nil {
		return // it can be read only on the cluster made by test/cluster
	}
	for _, account := range []string{"core", "doorbell"} {
		entries, err := suite.audit.of(fmt.Sprintf("system:serviceaccount:%s:%s", kit.Namespace, account))
		s.must(err)
		if len(entries) == 0 {
			s.Errorf("the audit log has nothing of %s: is it the right log?", account)
		}
		for _, e := range entries {
			if !e.reads() && !e.own() && !e.isReview() {
				s.Errorf("%s was not allowed to: %s", account, e)
			}
			if account == "doorbell" && e.Verb == "get" && !strings.Contains(e.RequestURI, "/leases/") {
				s.Errorf("the doorbell read a whole object: %s", e)
			}
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// TestServerlessForms installs the forms of the serverless mode with a core that always runs, and with Knative Eventing
// instead of a doorbell. In each, a Service lives while the controller has no pod.
func TestServerlessForms(t *testing.T) {
	onlyInFull(t)
	if suite.installed || suite.guest {
		t.Skip("it changes the installation")
	}
	// Nobody else may need the controller meanwhile.
	suite.undisturbed.Lock()
	t.Cleanup(suite.undisturbed.Unlock)
	t.Run("Deployment", func(t *testing.T) {
		s := newScene(t)
		s.source("source", service("sink"))
		back := s.switchToServerless(kit.AsDeployment)
		s.must(suite.Serverless.WaitControllerAsleep(t.Context()))
		s.livesIn("with a core that always runs")
		s.must(back(t.Context()))
	})
	t.Run("Eventing", func(t *testing.T) {
		// Else Triggers send no token.
		setConfig(t, "knative-eventing", "config-features", map[string]string{"authentication-oidc": "enabled"})
		s := newScene(t)
		s.source("source", service("sink"))
		back := s.switchToServerless(kit.ByEventing)
		began := time.Now()
		s.must(kit.Wait(t.Context(), 6*time.Minute, "the first sweep", suite.Serverless.Swept))
		say("the first sweep came after %s", took(began))
		// It does not sleep by itself.
		s.must(suite.Controller.Scale(t.Context(), 0))
		s.livesIn("with Knative Eventing")
		s.must(back(t.Context()))
	})
}

// livesIn lets a Service live, and checks what is told of it.
func (s *scene) livesIn(how string) {
	s.Helper()
	ctx := s.Context()
	pods := s.watchController()
	began := time.Now()
	s.deploy("shop")
	want := slices.Clone(birth)
	s.tells(want, about("shop"))
	say("%s, the birth of a Service is told within %s of its creation", how, took(began))
	began = time.Now()
	want = append(want, s.upgrade("shop", "two")...)
	_, err := suite.Services.Wait(ctx, s.ns, "shop", kit.RevisionName("shop", 2))
	s.must(err)
	s.tells(want, about("shop"))
	say("%s, an upgrade within %s", how, took(began))
	s.must(suite.Services.Delete(ctx, s.ns, "shop"))
	began = time.Now()
	s.tells(append(want, removed), about("shop"))
	say("%s, a removal within %s", how, took(began))
	if all := pods(); len(all) > 0 {
		s.Errorf("%s, the controller was awake: %v", how, all)
	}
}

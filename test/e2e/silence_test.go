// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"slices"
	"testing"

	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// TestRestartAndResyncAreSilent kills the controller and touches what it watches. That causes no events; the next
// change causes one.
func TestRestartAndResyncAreSilent(t *testing.T) {
	s := newScene(t)
	s.source("source", service("sink"))
	s.deploy("shop")
	s.sink.exactly(t, birth)

	s.must(suite.Controller.Restart(t.Context()))
	s.must(suite.Controller.WaitLeader(t.Context()))
	// A new Service shows that the new process is working; by then it has read all the others.
	s.deploy("other")
	s.sink.exactly(t, birth, about("other"))
	s.sink.exactly(t, birth, about("shop"))

	// Changes of metadata are not releases.
	s.must(suite.Services.Update(t.Context(), s.ns, "shop", func(svc *servingv1.Service) {
		svc.Annotations["example.com/touched"] = "true"
		svc.Labels = map[string]string{"touched": "true"}
	}))
	_, err := suite.Services.Wait(t.Context(), s.ns, "shop", "")
	s.must(err)
	s.sink.exactly(t, birth, about("shop"))

	s.must(suite.Services.Update(t.Context(), s.ns, "shop", func(svc *servingv1.Service) { kit.SetVersion(svc, "two") }))
	_, err = suite.Services.Wait(t.Context(), s.ns, "shop", kit.RevisionName("shop", 2))
	s.must(err)
	s.sink.exactly(t, slices.Concat(birth, []string{revisionReady, upgraded}), about("shop"))
}

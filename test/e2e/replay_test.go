// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"slices"
	"testing"

	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// TestReplay: a source that is created later receives the present state once, and then events like the others.
func TestReplay(t *testing.T) {
	sideBySide(t)
	s := newScene(t)
	s.source("early", service("sink"))
	s.deploy("shop")
	original := s.sink.exactly(t, birth, at("/"))

	s.source("late", uri("http://sink."+s.ns+".svc.cluster.local/late"), func(spec *v1alpha1.CDEventSourceSpec) {
		spec.Replay = v1alpha1.ReplayCurrent
	})
	replayed := []string{deployed, published}
	for i, e := range s.sink.exactly(t, replayed, at("/late")) {
		conforms(t, e, "0.5.1")
		if e.cd.CustomData.Reason != "Replay" {
			t.Errorf("%s has the reason %q, want that of a replay", e, e.cd.CustomData.Reason)
		}
		first := original[2+i]
		if e.cd.Context.ID == first.cd.Context.ID || e.cd.Subject.Content.ArtifactID != first.cd.Subject.Content.ArtifactID {
			t.Errorf("want the artifact of %s, under an id of its own; got %s", first, e)
		}
	}

	s.must(suite.Services.Update(t.Context(), s.ns, "shop", func(svc *servingv1.Service) { kit.SetVersion(svc, "two") }))
	_, err := suite.Services.Wait(t.Context(), s.ns, "shop", kit.RevisionName("shop", 2))
	s.must(err)
	then := []string{revisionReady, upgraded}
	s.sink.exactly(t, slices.Concat(replayed, then), at("/late"))
	s.sink.exactly(t, slices.Concat(birth, then), at("/"))
}

// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// TestLifeOfAService follows a Knative Service from creation through a canary, a promotion and a rollback to its
// removal. Two sources receive the events: one as CDEvents 0.5, the other as 0.4.
func TestLifeOfAService(t *testing.T) {
	sideBySide(t)
	s := newScene(t)
	ctx := t.Context()
	s.source("new", service("sink"), production)
	s.source("old", uri("http://sink."+s.ns+".svc.cluster.local/old"), func(spec *v1alpha1.CDEventSourceSpec) {
		spec.CDEvents = &v1alpha1.CDEventsSpec{Version: "0.4"}
	})
	change := func(change func(*servingv1.Service)) {
		t.Helper()
		s.must(suite.Services.Update(ctx, s.ns, "cart", change))
	}
	wait := func(revision string) *servingv1.Service {
		t.Helper()
		svc, err := suite.Services.Wait(ctx, s.ns, "cart", revision)
		s.must(err)
		return svc
	}
	first, second := kit.RevisionName("cart", 1), kit.RevisionName("cart", 2)

	app := kit.App(s.ns, "cart", suite.app, "one")
	release(app, "41", "9fceb02d0ae598e95dc970b74767f19372d61af8")
	s.must(suite.Services.Create(ctx, app))
	svc := wait(first)
	s.sink.exactly(t, birth, at("/"))
	one := imageDigest(t, s.ns, first)

	// A canary: one write changes both template and split.
	change(func(svc *servingv1.Service) {
		svc.Spec.Template.Spec.Containers[0].Image = suite.next
		release(svc, "42", "e83c5163316f89bfbde7d9ab23ca2e25604af290")
		svc.Spec.Template.Annotations[cdevents.AnnotationChainID] = chain
		svc.Spec.Template.Annotations[cdevents.AnnotationLinks] = "ARTIFACT=3d3c8f7e-0a5e-4f7e-9a2a-5c9b1a7d4e60"
		svc.Spec.Template.Annotations[cdevents.AnnotationTraceParent] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		kit.SetTraffic(svc, kit.Share{Revision: first, Percent: 90}, kit.Share{Percent: 10})
	})
	wait(second)
	two := imageDigest(t, s.ns, second)
	s.sink.exactly(t, slices.Concat(birth, []string{revisionReady, shifted}), at("/"))

	change(func(svc *servingv1.Service) { kit.SetTraffic(svc, kit.Share{Percent: 100}) })
	wait(second)
	s.sink.exactly(t, slices.Concat(birth, []string{revisionReady, shifted, upgraded}), at("/"))

	change(func(svc *servingv1.Service) { kit.SetTraffic(svc, kit.Share{Revision: first, Percent: 100}) })
	wait(second)
	s.must(suite.Services.Delete(ctx, s.ns, "cart"))

	all := slices.Concat(birth, []string{revisionReady, shifted, upgraded, rolledBack, removed})
	events := s.sink.exactly(t, all, at("/"))
	ids := map[string]bool{}
	for i, e := range events {
		conforms(t, e, "0.5.1")
		if i != 1 { // the second of two ready Revisions has more fields
			capture(t, e)
		}
		if ids[e.cd.Context.ID] {
			t.Errorf("two events have id %s", e.cd.Context.ID)
		}
		ids[e.cd.Context.ID] = true
		if e.cd.Subject.ID != events[0].cd.Subject.ID || !strings.Contains(e.cd.Subject.ID, s.ns+"/cart") {
			t.Errorf("subject %q, want the same in all events, with namespace and name", e.cd.Subject.ID)
		}
		if i > 0 && e.cd.Context.Timestamp < events[i-1].cd.Context.Timestamp {
			t.Errorf("event %d is older than its predecessor: %s", i, e)
		}
		if k := e.cd.CustomData.Knative; k.Namespace != s.ns || k.UID != string(svc.UID) {
			t.Errorf("it does not name its Service: %s", e)
		}
	}

	// The content of each event.
	digests := map[string]string{first: one, second: two}
	artifact := func(i int, revision string) {
		t.Helper()
		e := events[i]
		if r := e.cd.CustomData.Knative.Revision; r == nil || r.Name != revision {
			t.Errorf("%s does not name Revision %s: %s", all[i], revision, e)
		}
		id := e.cd.Subject.Content.ArtifactID
		if !strings.HasPrefix(id, "pkg:oci/") || !strings.Contains(id, strings.ReplaceAll(digests[revision], ":", "%3A")) {
			t.Errorf("%s names artifact %q, want a package URL with %s", all[i], id, digests[revision])
		}
	}
	for i := 4; i <= 6; i++ { // the rollout of the second Revision
		e := events[i]
		if e.cd.Context.ChainID != chain || !strings.Contains(string(e.Body), "cart-release-42") || !strings.Contains(string(e.Body), "3d3c8f7e-0a5e-4f7e-9a2a-5c9b1a7d4e60") {
			t.Errorf("%s lacks values of its template's annotations: %s", all[i], e)
		}
		if !strings.HasPrefix(e.Header.Get("Ce-Traceparent"), "00-4bf92f3577b34da6a3ce929d0e0e4736-") {
			t.Errorf("%s has no trace context: %v", all[i], e.Header)
		}
	}
	if one == two {
		t.Errorf("both Revisions run %s, so the artifacts in the events prove nothing", one)
	}
	artifact(2, first)
	artifact(6, second)
	artifact(7, first)
	if urls := events[3].cd.CustomData.Knative.URLs; !slices.Contains(urls, svc.Status.URL.String()) {
		t.Errorf("published names %q, want %s among them", urls, svc.Status.URL)
	}
	if split := events[5].cd.CustomData.Knative.Traffic; len(split) != 2 || split[0].Percent != 90 || split[1].Percent != 10 || split[1].Revision != second {
		t.Errorf("shifted has the split %v, want 90 and 10", split)
	}
	if r := events[7].cd.CustomData.Knative.PreviousRevision; r == nil || r.Name != second {
		t.Errorf("rolledback does not name the Revision that was rolled back: %s", events[7])
	}

	// The other source sends the same events in its own version.
	old := make([]string, len(all))
	for i, typ := range all {
		old[i] = strings.Replace(typ, ".0.3.0", ".0.2.0", 1)
	}
	for _, e := range s.sink.exactly(t, old, at("/old")) {
		conforms(t, e, "0.4.1")
		if ids[e.cd.Context.ID] {
			t.Errorf("an event of CDEvents 0.4 has the id of one of 0.5: %s", e)
		}
	}
}

// chain is the chain id that a pipeline gives its rollout.
const chain = "7ff3f526-1a0e-4d35-8a4c-7d6295e97359"

// release sets the template annotations that a pipeline sets.
func release(svc *servingv1.Service, number, commit string) {
	svc.Spec.Template.Annotations = map[string]string{
		cdevents.AnnotationCommitSHA: commit, cdevents.AnnotationRepository: "https://git.example.com/shop/cart", cdevents.AnnotationBranch: "main",
		cdevents.AnnotationPipelineID: "cart-release-" + number, cdevents.AnnotationDeployer: "argocd",
	}
}

// imageDigest returns the digest that the serving container of a Revision runs.
func imageDigest(t *testing.T, ns, revision string) string {
	t.Helper()
	r, err := suite.Serving.ServingV1().Revisions(ns).Get(t.Context(), revision, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Status.ContainerStatuses) == 0 {
		t.Fatalf("Revision %s names no image", revision)
	}
	_, digest, ok := strings.Cut(r.Status.ContainerStatuses[0].ImageDigest, "@")
	if !ok {
		t.Fatalf("the image of Revision %s was not resolved to a digest: %+v", revision, r.Status.ContainerStatuses)
	}
	return digest
}

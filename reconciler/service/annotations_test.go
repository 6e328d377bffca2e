// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// A part of a commit, a chain or a URL would name something else, and the Service's value does not
// apply to the Revision. So an event omits an annotation that is too long.
func TestTruncatedAnnotationsAreOmitted(t *testing.T) {
	sha := strings.Repeat("0123456789", 4)
	for name, given := range map[string]map[string]string{
		"a list without links":    {cdevents.AnnotationCommitSHA: sha + "," + strings.Repeat("x", 3000)},
		"only escaped characters": {cdevents.AnnotationCommitSHA: strings.Repeat("<", 900)},
		"little room is left": {
			cdevents.AnnotationBranch:  strings.Repeat("b", 2048),
			cdevents.AnnotationChainID: strings.Repeat("c", 2040), cdevents.AnnotationCommitSHA: sha,
		},
		"no room is left": {
			cdevents.AnnotationBranch:  strings.Repeat("b", 2048),
			cdevents.AnnotationChainID: strings.Repeat("c", 2048), cdevents.AnnotationCommitSHA: sha,
		},
	} {
		carried := lifecycle.BoundAnnotations(given, cdevents.CarriedAnnotations())
		size := 0
		for _, v := range carried {
			size += lifecycle.JSONSize(v)
		}
		if size > lifecycle.MaxAnnotations+len(carried) {
			t.Errorf("%s: %d bytes are kept", name, size)
		}
		data := rendered(t, map[string]string{cdevents.AnnotationCommitSHA: "of-the-service"}, carried)
		if strings.Contains(data, `"commitSha"`) ||
			!strings.Contains(data, "annotation "+cdevents.AnnotationCommitSHA+" left out") {
			t.Errorf("%s: %s", name, data)
		}
	}
}

// A long list of links keeps its first links, and none of them is truncated.
func TestLongListKeepsWholeLinks(t *testing.T) {
	var links []string
	for i := range 12 {
		links = append(links, fmt.Sprintf("CI=%d%s", i, strings.Repeat("x", 200)))
	}
	data := rendered(t, nil, lifecycle.BoundAnnotations(map[string]string{cdevents.AnnotationLinks: strings.Join(links,
		",")}, cdevents.CarriedAnnotations()))
	for i, link := range links {
		if has, want := strings.Contains(data, `"`+strings.TrimPrefix(link, "CI=")+`"`), i < 9; has != want {
			t.Errorf("link %d is in the event: %t, want %t", i, has, want)
		}
	}
	if n := strings.Count(data, strings.Repeat("x", 20)); !strings.Contains(data, "left out; write KIND=") || n == 0 {
		t.Errorf("no note says that links are left out: %s", data)
	}
}

func rendered(t *testing.T, ofService, ofRevision map[string]string) string {
	t.Helper()
	rev, err := project.revision(newRevision())
	if err != nil {
		t.Fatal(err)
	}
	rev.Facts.Annotations = ofRevision
	tr := lifecycle.Transition{
		Sequence: 1, Time: time.Unix(1e9, 0), Type: lifecycle.Deployed, Revision: rev.Facts,
		Annotations: ofService,
	}
	out, err := cdevents.Render(
		v1alpha1.Profile{
			SpecVersion: cdevents.Version05, Rendering: cdevents.Rendering, Source: "https://example.com",
			Environment: v1alpha1.Environment{ID: "e"},
		},
		v1alpha1.CDEventSubjectSpec{Kind: "Service", Namespace: "shop", Name: "cart", UID: "u"}, tr,
	)
	if err != nil {
		t.Fatal(err)
	}
	return string(out.Data())
}

// The message of a condition may quote the URL that a registry was asked at.
func TestTroubleHasNoCredentials(t *testing.T) {
	o := &servingv1.Service{}
	o.Status.Conditions = duckv1.Conditions{{
		Type: servingv1.ServiceConditionConfigurationsReady, Status: corev1.ConditionFalse, Reason: "RevisionFailed",
		Message: `Get "https://robot:s3cret@registry.example.com/v2/": 401`,
	}}
	if got := trouble(o)[lifecycle.FailedRollout].Message; got != `Get "https://registry.example.com/v2/": 401` {
		t.Error(got)
	}
}

// Nothing limits the reason of a condition in Serving's definitions. An event must stay below 64 KiB.
func TestReasonOfTroubleIsKeptShort(t *testing.T) {
	o := &servingv1.Service{}
	o.Status.Conditions = duckv1.Conditions{{
		Type: servingv1.ServiceConditionConfigurationsReady, Status: corev1.ConditionFalse,
		Reason: "https://robot:s3cret@registry.example.com/" + strings.Repeat("x", 100_000),
	}}
	if got := trouble(o)[lifecycle.FailedRollout].Reason; len(got) != maxReason+len("…") ||
		strings.Contains(got, "s3cret") {
		t.Errorf("%d bytes: %.60s", len(got), got)
	}
}

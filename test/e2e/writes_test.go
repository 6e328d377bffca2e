// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

var writes = []string{"create", "update", "patch", "delete", "deletecollection", "bind", "escalate", "impersonate"}

// everybody lists reviews of one's own permissions, which Kubernetes allows to all authenticated users.
var everybody = []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"}

// questions are reviews of others' tokens and permissions. They are created, but not stored.
var questions = []string{"tokenreviews", "subjectaccessreviews"}

// TestNoRightToWrite asks the API server, for every kind, whether the controller may write it in any namespace. Only
// the project's own kinds are allowed.
func TestNoRightToWrite(t *testing.T) {
	user, err := suite.Controller.ServiceAccount(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := suite.Kube.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if gv.Group == v1alpha1.GroupName || slices.Contains(everybody, r.Name) {
				continue
			}
			resource, sub, _ := strings.Cut(r.Name, "/")
			for _, verb := range writes {
				if verb == "create" && slices.Contains(questions, r.Name) {
					continue
				}
				asked++
				if allowed(t, user, authorizationv1.ResourceAttributes{Group: gv.Group, Resource: resource, Subresource: sub, Verb: verb}) {
					t.Errorf("the controller may %s %s of group %q in any namespace", verb, r.Name, gv.Group)
				}
			}
		}
	}
	if asked < 500 {
		t.Errorf("only %d reviews were made: discovery is incomplete", asked)
	}
	// Some reviews must be allowed; otherwise the denials prove nothing.
	status := authorizationv1.ResourceAttributes{Group: v1alpha1.GroupName, Resource: "cdeventsources", Subresource: "status", Verb: "update"}
	patch := status
	patch.Verb = "patch"
	if !allowed(t, user, status) && !allowed(t, user, patch) {
		t.Error("the controller may not even write the status of its sources: is it the right account?")
	}
	if !allowed(t, user, authorizationv1.ResourceAttributes{Group: "serving.knative.dev", Resource: "services", Verb: "watch"}) {
		t.Error("the controller may not watch Knative Services: is it the right account?")
	}
}

// allowed reports whether a user may do something in namespace default.
func allowed(t *testing.T, user string, what authorizationv1.ResourceAttributes) bool {
	t.Helper()
	what.Namespace = "default"
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               user,
		Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + kit.Namespace, "system:authenticated"},
		ResourceAttributes: &what,
	}}
	answer, err := suite.Kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Allowed
}

// nothingWasWritten reads from the API server's audit log what the controller did in all tests, which have ended. It may
// have written its own kinds and, with the opt-in part for Tekton, the status of CustomRuns that refer to a gate.
func nothingWasWritten(ctx context.Context) error {
	if suite.audit == nil {
		return nil // it can be read only on the cluster made by test/cluster
	}
	user, err := suite.Controller.ServiceAccount(ctx)
	if err != nil {
		return err
	}
	entries, err := suite.audit.of(user)
	if err != nil {
		return err
	}
	verbs := map[string]int{}
	var forbidden []error
	for _, e := range entries {
		verbs[e.Verb]++
		if !e.reads() && !e.own() && !e.isReview() && !e.updatesGateRun(suite.runs.Ours) {
			forbidden = append(forbidden, fmt.Errorf("the controller was not allowed to: %s", e))
		}
	}
	say("the controller made %d requests: %v; %d wrote what is not its own", len(entries), verbs, len(forbidden))
	if !suite.installed && (verbs["watch"] == 0 || verbs["list"]+verbs["get"] == 0) {
		forbidden = append(forbidden, fmt.Errorf("the audit log contains only %v of the controller: is it the right log?", verbs))
	}
	return errors.Join(forbidden...)
}

// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// readable waits until the controller watches a kind of environments, by the name of its CDEventBaseline.
func (s *scene) readable(kind string) {
	s.Helper()
	s.must(kit.Wait(s.Context(), 2*time.Minute, "the watch of "+kind, func(ctx context.Context) error {
		marker, err := suite.Ours.CDEventBaselines(kit.Namespace).Get(ctx, kind, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return kit.NotYet("it has no CDEventBaseline")
		}
		if err != nil {
			return err
		}
		for _, c := range marker.Status.Conditions {
			if c.Type == "Readable" && c.Status == "True" {
				return nil
			}
		}
		return kit.NotYet("its conditions are %s", compact(marker.Status.Conditions))
	}))
}

// withoutController does something while no controller runs, and returns when there is a leader again.
func (s *scene) withoutController(do func()) {
	s.Helper()
	d, err := suite.Controller.Deployment(s.Context())
	s.must(err)
	back := func(ctx context.Context) error { return suite.Controller.Scale(ctx, int(*d.Spec.Replicas)) }
	s.Cleanup(func() {
		if err := back(context.WithoutCancel(s.Context())); err != nil {
			s.Error(err)
		}
	})
	suite.undisturbed.Lock() // waits for the tests that run side by side with this one
	defer suite.undisturbed.Unlock()
	s.must(suite.Controller.Scale(s.Context(), 0))
	do()
	s.must(back(s.Context()))
	s.must(suite.Controller.WaitLeader(s.Context()))
}

// onlyReads reads the audit log: the controller only gets, lists and watches what belongs to groups whose names end so.
func onlyReads(t *testing.T, groups ...string) {
	t.Helper()
	user, err := suite.Controller.ServiceAccount(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := suite.audit.of(user)
	if err != nil {
		t.Fatal(err)
	}
	verbs := map[string]map[string]int{}
	for _, g := range groups {
		verbs[g] = map[string]int{}
	}
	for _, e := range all {
		for _, g := range groups {
			if e.ObjectRef == nil || !strings.HasSuffix(e.ObjectRef.APIGroup, g) {
				continue
			}
			verbs[g][e.Verb]++
			if !e.reads() {
				t.Errorf("the controller wrote: %s", e)
			}
		}
	}
	for g, verbs := range verbs {
		if verbs["watch"] == 0 { // client-go lists by a watch that sends what exists first
			t.Errorf("the audit log does not show that the controller reads environments of %s: %v", g, verbs)
		}
	}
	say("requests of the controller by group and verb: %v", verbs)
}

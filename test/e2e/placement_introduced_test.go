// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// TestPlacementIsIntroduced follows an application to the first Revision with the library, and back to the one without.
// The oldest member assigns the shards, so the plan has no effect until the pods of the old Revision are gone, and none
// after the rollback. The condition on the Service's CDEventSubject says so, and requests are answered all the time.
func TestPlacementIsIntroduced(t *testing.T) {
	sideBySide(t)
	onlyInFull(t)
	if suite.guest {
		t.Skip("it reads the ledger")
	}
	s := emptyScene(t)
	app := s.pekko()
	clients := s.allocate(app)
	app.CanaryAnnotations = map[string]string{v1alpha1.AnnotationPlacement: string(v1alpha1.PlacementEnforce)}
	s.must(suite.Carts.ReleaseCanary(t.Context(), app, map[string]string{"PLACEMENT": "true"}))
	s.must(suite.Carts.WaitOneCluster(t.Context(), app))

	stop := background(t.Context(), clients)
	s.must(suite.Carts.Split(t.Context(), app, 20))
	s.placement(app, "CoordinatorWithoutPlacement")
	s.must(suite.Carts.Split(t.Context(), app, 100))
	s.placement(app, "CoordinatorHasPlacement")
	s.must(suite.Carts.Split(t.Context(), app, 0))
	// There is no plan, and no condition, as soon as the last pod with the library is gone.
	s.placement(app, "CoordinatorWithoutPlacement", "")
	stop()
	t.Logf("what the clients got meanwhile\n%s", clients.Truth())

	// What is lost while pods leave is the default's: the old Revision asks once. So wait until all have left.
	s.must(kit.Wait(t.Context(), 3*time.Minute, "the end of the canary's pods", func(ctx context.Context) error {
		pods, err := suite.Carts.Pods(ctx, app)
		if err != nil {
			return err
		}
		for _, p := range pods {
			if p.Labels["serving.knative.dev/revision"] != app.Stable() || p.DeletionTimestamp != nil {
				return kit.NotYet("%s is there", p.Name)
			}
		}
		return nil
	}))
	s.must(suite.Carts.WaitOneCluster(t.Context(), app))
	// Pekko still moves shards then, and the old Revision loses requests with them.
	s.must(kit.Wait(t.Context(), 3*time.Minute, "500 requests that are all answered", func(ctx context.Context) error {
		after, err := suite.Carts.Clients(ctx, app)
		if err != nil {
			return err
		}
		if err := after.Send(ctx, 500); err != nil {
			return err
		}
		if truth := after.Truth(); len(truth.Lost) > 0 || truth.Handled[""].All() > 0 {
			return kit.NotYet("%v, %v", truth.Lost, truth.Handled[""])
		}
		return nil
	}))
}

// placement waits until the condition of the Service's CDEventSubject has one of the reasons; "" is that there is none.
func (s *scene) placement(app *kit.Cart, reasons ...string) {
	s.Helper()
	begun, got := time.Now(), ""
	s.must(kit.Wait(s.Context(), 4*time.Minute, fmt.Sprintf("the condition %q", reasons), func(ctx context.Context) error {
		list, err := suite.Ours.CDEventSubjects(kit.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, o := range list.Items {
			if o.Spec.Namespace != app.Namespace || o.Spec.Kind != "Service" {
				continue
			}
			c := meta.FindStatusCondition(o.Status.Conditions, "PlacementEnforced")
			if got = ""; c != nil {
				got = c.Reason
			}
			if slices.Contains(reasons, got) {
				return nil
			}
			return kit.NotYet("it is %s", compact(c))
		}
		return kit.NotYet("there is no CDEventSubject of %s", app.Namespace)
	}))
	s.Logf("%q after %s", got, time.Since(begun).Round(time.Second))
}

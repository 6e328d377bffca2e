// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// TestForgottenServiceIsAnnouncedAgain annotates the CDEventSubject of a Service. The Service is then announced as a
// new one is, and its next change as that of any other.
func TestForgottenServiceIsAnnouncedAgain(t *testing.T) {
	s := newScene(t)
	ctx := t.Context()
	s.source("source", service("sink"))
	s.deploy("shop")
	s.sink.exactly(t, birth)

	of := suite.Ours.CDEventSubjects(kit.Namespace)
	svc, err := suite.Serving.ServingV1().Services(s.ns).Get(ctx, "shop", metav1.GetOptions{})
	s.must(err)
	name := "service-" + string(svc.UID)
	before, err := of.Get(ctx, name, metav1.GetOptions{})
	s.must(err)
	_, err = of.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+v1alpha1.ForgetAnnotation+`":"true"}}}`), metav1.PatchOptions{})
	s.must(err)
	s.must(kit.Wait(ctx, time.Minute, "another CDEventSubject", func(ctx context.Context) error {
		now, err := of.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return kit.NotYet("%v", err)
		}
		if now.UID == before.UID || now.Annotations[v1alpha1.ForgetAnnotation] != "" {
			return kit.NotYet("it is the same one, with annotations %v", now.Annotations)
		}
		return nil
	}))
	s.sink.exactly(t, slices.Concat(birth, birth), about("shop"))
}

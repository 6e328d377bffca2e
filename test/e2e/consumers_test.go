// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

var example = regexp.MustCompile("(?s)<!-- example: ([a-z]+) -->\n```yaml\n(.*?)```\n<!-- end -->")

// documented applies an example of docs/consumers.md. Only the namespace and the image are changed.
func (s *scene) documented(name string) {
	s.Helper()
	page, err := os.ReadFile(suite.Path("docs", "consumers.md"))
	s.must(err)
	for _, found := range example.FindAllStringSubmatch(string(page), -1) {
		if found[1] != name {
			continue
		}
		text := strings.NewReplacer("namespace: shop", "namespace: "+s.ns, "listener-shop", "listener-"+s.ns, "busybox:1.37", shell()).Replace(found[2])
		s.must(suite.Apply(s.Context(), s.ns, text))
		return
	}
	s.Fatalf("docs/consumers.md has no example %q", name)
}

// shell is an image with a shell. The cluster made by test/cluster has one in its own registry.
func shell() string {
	if !suite.Own() {
		return "busybox:1.37"
	}
	registry, _, _ := strings.Cut(suite.app, "/")
	return registry + "/busybox:latest"
}

// TestBroker sends to a Broker and receives from a Trigger.
func TestBroker(t *testing.T) {
	sideBySide(t)
	if !suite.full {
		t.Skip("it needs Knative Eventing: make e2e-full")
	}
	s := newScene(t)
	s.documented("broker")
	eventing := schema.GroupVersion{Group: "eventing.knative.dev", Version: "v1"}
	s.must(suite.WaitReady(t.Context(), eventing.WithResource("brokers"), s.ns, "default"))
	s.must(suite.WaitReady(t.Context(), eventing.WithResource("triggers"), s.ns, "services"))
	s.waitSource("by-broker")
	s.deploy("shop")
	for _, e := range s.sink.exactly(t, []string{deployed, published}) {
		if err := validate(e, "0.5.1"); err != nil {
			t.Errorf("%v\nthe event: %s", err, e)
		}
	}
}

// TestEventListener starts Tekton TaskRuns on an upgrade, once in binary and once in structured mode.
func TestEventListener(t *testing.T) {
	sideBySide(t)
	if !suite.full {
		t.Skip("it needs Tekton Triggers: make e2e-full")
	}
	s := newScene(t)
	ctx := t.Context()
	s.documented("listener")
	t.Cleanup(func() {
		s.must(suite.Kube.RbacV1().ClusterRoleBindings().Delete(context.WithoutCancel(ctx), "cdevents-listener-"+s.ns, metav1.DeleteOptions{}))
		s.must(suite.Kube.RbacV1().ClusterRoles().Delete(context.WithoutCancel(ctx), "cdevents-listener", metav1.DeleteOptions{}))
	})
	listeners := schema.GroupVersionResource{Group: "triggers.tekton.dev", Version: "v1beta1", Resource: "eventlisteners"}
	s.must(suite.WaitReady(ctx, listeners, s.ns, "releases"))
	s.waitSource("releases")
	// A second source sends in the other mode. Its events have other ids, because its environment differs.
	to := duckv1.Destination{Ref: &duckv1.KReference{APIVersion: "triggers.tekton.dev/v1beta1", Kind: "EventListener", Name: "releases"}}
	s.source("structured", to, func(spec *v1alpha1.CDEventSourceSpec) {
		format := eventingduckv1.DeliveryFormatJson
		spec.Delivery = &eventingduckv1.DeliverySpec{Format: &format}
		spec.Environment = &v1alpha1.Environment{ID: "structured"}
		spec.Filters = []v1alpha1.Filter{{Prefix: map[string]string{"type": "dev.cdevents.service."}}}
	})
	s.source("plain", service("sink"), func(spec *v1alpha1.CDEventSourceSpec) {
		spec.Filters = []v1alpha1.Filter{{Exact: map[string]string{"type": upgraded}}}
	})
	s.deploy("shop")
	s.must(suite.Services.Update(ctx, s.ns, "shop", image(suite.next)))
	_, err := suite.Services.Wait(ctx, s.ns, "shop", kit.RevisionName("shop", 2))
	s.must(err)
	want := s.sink.exactly(t, []string{upgraded})[0]

	runs := schema.GroupVersionResource{Group: "tekton.dev", Version: "v1", Resource: "taskruns"}
	s.must(kit.Wait(ctx, 2*time.Minute, "two TaskRuns with the artifact", func(ctx context.Context) error {
		list, err := suite.Dynamic.Resource(runs).Namespace(s.ns).List(ctx, metav1.ListOptions{LabelSelector: "started-by=cdevents"})
		if err != nil {
			return err
		}
		known, names := 0, map[string]bool{}
		for _, run := range list.Items {
			names[run.GetName()] = true
			results, _, err := unstructured.NestedSlice(run.Object, "status", "results")
			if err != nil {
				return err
			}
			if strings.Contains(fmt.Sprint(results), want.cd.Subject.Content.ArtifactID) {
				known++
			}
		}
		if len(names) > 2 {
			t.Fatalf("%d TaskRuns were started: %v", len(names), names)
		}
		if known < 2 || !names["after-upgrade-"+want.cd.Context.ID] {
			return kit.NotYet("%d of %v have %s", known, names, want.cd.Subject.Content.ArtifactID)
		}
		return nil
	}))
}

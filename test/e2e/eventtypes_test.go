// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// TestEventTypes checks that Knative Eventing creates EventTypes for a source. If Eventing's controller finds a kind
// before the API server serves it, it gives up until it restarts; the test then restarts it.
func TestEventTypes(t *testing.T) {
	sideBySide(t)
	if !suite.full {
		t.Skip("it needs Knative Eventing: make e2e-full")
	}
	s := newScene(t)
	ctx := t.Context()
	s.source("typed", service("sink"))
	err := s.waitEventTypes(ctx, 15*time.Second, "typed")
	if err != nil {
		t.Logf("Eventing's controller is restarted: %v", err)
		s.must(suite.Kube.CoreV1().Pods("knative-eventing").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=eventing-controller"}))
		err = s.waitEventTypes(ctx, 3*time.Minute, "typed")
	}
	s.must(err)
}

// waitEventTypes waits until exactly the EventTypes that a source announces exist.
func (s *scene) waitEventTypes(ctx context.Context, limit time.Duration, source string) error {
	types := schema.GroupVersionResource{Group: "eventing.knative.dev", Version: "v1beta2", Resource: "eventtypes"}
	return kit.Wait(ctx, limit, "EventTypes of the source", func(ctx context.Context) error {
		from, err := suite.Ours.CDEventSources(s.ns).Get(ctx, source, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("getting the source: %w", err)
		}
		var want, got []string
		for _, a := range from.Status.CloudEventAttributes {
			want = append(want, a.Type+" from "+a.Source)
		}
		list, err := suite.Dynamic.Resource(types).Namespace(s.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing EventTypes: %w", err)
		}
		for _, item := range list.Items {
			if owner := metav1.GetControllerOf(&item); owner == nil || owner.UID != from.UID {
				continue
			}
			got = append(got, specText(item, "type")+" from "+specText(item, "source"))
			if specText(item, "reference", "name") != "sink" || specText(item, "description") == "" {
				return fmt.Errorf("an EventType without its sink or its description: %v", item.Object["spec"])
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if len(want) == 0 || !slices.Equal(want, got) {
			return kit.NotYet("the EventTypes are %q, want %q", got, want)
		}
		return nil
	})
}

// specText returns a text field of an object's spec.
func specText(o unstructured.Unstructured, path ...string) string {
	value, _, err := unstructured.NestedString(o.Object, append([]string{"spec"}, path...)...)
	if err != nil {
		return err.Error()
	}
	return value
}

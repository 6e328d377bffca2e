// SPDX-License-Identifier: Apache-2.0

package oneshot_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/reconciler/oneshot"
)

// measuring notes what it is asked about.
type measuring struct {
	mu    sync.Mutex
	asked []string
	err   error
}

func (m *measuring) note(what string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, what)
	return m.err
}

func (m *measuring) Service(_ context.Context, of types.NamespacedName) error {
	return m.note(of.String() + " stateful=false")
}

func (m *measuring) Stateful(_ context.Context, of types.NamespacedName) error {
	return m.note(of.String() + " stateful=true")
}

func (m *measuring) Object(_ context.Context, kind schema.GroupKind, of types.NamespacedName) (bool, error) {
	if kind != v1alpha1.GateKind.GroupKind() {
		return false, nil
	}
	return true, m.note(kind.Kind + " " + of.String())
}

func (m *measuring) Everything(context.Context) error { return m.note("everything") }

func (m *measuring) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked := m.asked
	m.asked = nil
	slices.Sort(asked)
	return asked
}

// What measures is woken by rings and by the sweep, and a ring for which that fails is not answered.
func TestMeasuringIsWoken(t *testing.T) {
	c, m := newCluster(t, sourceTo("sink")), &measuring{}
	c.deploy()
	core := c.core()
	core.Measuring = m
	service := oneshot.Reference{APIVersion: "serving.knative.dev/v1", Kind: "Service", Namespace: cart.Namespace, Name: cart.Name}
	revision, gate := service, oneshot.Reference{APIVersion: v1alpha1.GroupName + "/v1alpha1", Kind: "CanaryGate", Namespace: "shop", Name: "gate"}
	revision.Kind, revision.Name = "Revision", "cart-00001"
	woken := func(what string, err error, want ...string) {
		t.Helper()
		if must(t, err); !slices.Equal(m.take(), want) {
			t.Errorf("%s does not ask about %q", what, want)
		}
	}
	woken("a Service", core.Changed(t.Context(), service), "shop/cart stateful=false")
	woken("a Revision", core.Changed(t.Context(), revision), "shop/cart stateful=false")
	woken("a gate", core.Changed(t.Context(), gate), "CanaryGate shop/gate")
	woken("a sweep", core.Sweep(t.Context()), "everything")

	rev, err := c.serving.ServingV1().Revisions("shop").Get(t.Context(), "cart-00001", metav1.GetOptions{})
	must(t, err)
	rev.Annotations = map[string]string{v1alpha1.AnnotationRuntime: "pekko"}
	must(t, c.serving.Tracker().Update(servingv1.SchemeGroupVersion.WithResource("revisions"), rev, "shop"))
	woken("a stateful Service", core.Changed(t.Context(), service), "shop/cart stateful=false", "shop/cart stateful=true")
	woken("a sweep", core.Sweep(t.Context()), "everything", "shop/cart stateful=true")

	m.err = errors.New("the API server is away")
	for what, err := range map[string]error{
		"a Service": core.Changed(t.Context(), service), "a gate": core.Changed(t.Context(), gate), "a sweep": core.Sweep(t.Context()),
	} {
		if never := (*oneshot.NotFollowedError)(nil); !errors.Is(err, m.err) || errors.As(err, &never) {
			t.Errorf("%s: %v", what, err)
		}
	}
	gate.Kind = "Other"
	if never := (*oneshot.NotFollowedError)(nil); !errors.As(core.Changed(t.Context(), gate), &never) {
		t.Error("another kind is measured")
	}
}

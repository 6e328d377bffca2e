// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	client "knative.dev/serving/pkg/client/clientset/versioned/typed/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

func rollout(t *testing.T, s *stage) {
	s.serve()
	out, result := s.results()
	first := s.asked(10, 0)
	first.baseline = ""
	must(t, shift(t.Context(), s.api, first, out))
	s.want("1=90,2=10")
	if got := result(baseline); got != s.revision("1") {
		t.Errorf("the baseline is %s", got)
	}
	if got := result(traffic); got != s.revision("1")+"=90,"+s.revision("2")+"=10" {
		t.Errorf("the traffic is %s", got)
	}
	must(t, shift(t.Context(), s.api, s.asked(100, 10), out))
	s.want("2=100")
	if got := result(message); !strings.Contains(got, "and was "+s.revision("1")+"=90") {
		t.Error(got)
	}
	// Back to an older Revision, whatever the current traffic is.
	must(t, shift(t.Context(), s.api, s.asked(0), out))
	s.want("1=100")
	service, err := s.api.Services(namespace).Get(t.Context(), s.name, metav1.GetOptions{})
	must(t, err)
	if service.Generation != 4 || service.Spec.Template.Spec.Containers[0].Image != "registry.example.com/cart" {
		t.Errorf("something other than the traffic was written, or not three times: %+v", service)
	}
}

func look(t *testing.T, s *stage) {
	s.serve()
	out, result := s.results()
	asked := s.asked(0, 0)
	asked.baseline = ""
	must(t, shift(t.Context(), s.api, asked, out))
	service, err := s.api.Services(namespace).Get(t.Context(), s.name, metav1.GetOptions{})
	must(t, err)
	if service.Generation != 1 || result(baseline) != s.revision("1") {
		t.Errorf("generation %d, baseline %s", service.Generation, result(baseline))
	}
}

// meddler writes the Service between another client's read and write.
type meddler struct {
	client.ServingV1Interface
	write func()
}

func (m *meddler) Services(ns string) client.ServiceInterface {
	return &meddled{m.ServingV1Interface.Services(ns), m}
}

type meddled struct {
	client.ServiceInterface
	m *meddler
}

func (m *meddled) Patch(ctx context.Context, name string, pt types.PatchType, data []byte, o metav1.PatchOptions, sub ...string) (*servingv1.Service, error) {
	if write := m.m.write; write != nil {
		m.m.write = nil
		write()
	}
	return m.ServiceInterface.Patch(ctx, name, pt, data, o, sub...)
}

// A conflict is retried if the other writer left the traffic alone.
func anotherWriter(t *testing.T, s *stage) {
	s.serve()
	out, _ := s.results()
	met := false
	must(t, shift(t.Context(), &meddler{s.api, func() {
		met = true
		_, err := s.api.Services(namespace).Patch(t.Context(), s.name, types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"a"}}}`), metav1.PatchOptions{})
		must(t, err)
	}}, s.asked(10, 0), out))
	s.want("1=90,2=10")
	if !met {
		t.Error("there was no conflict")
	}
}

func anotherSplit(_ *testing.T, s *stage) {
	s.serve()
	s.refused(&meddler{s.api, func() {
		s.split(`[{"revisionName":"NAME-1","percent":70},{"revisionName":"NAME-2","percent":30}]`)
	}}, s.asked(10, 0), "someone else has changed the traffic")
	s.want("1=70,2=30")
}

func changedMeanwhile(t *testing.T, s *stage) {
	// Serving does not react, so shift waits.
	done := make(chan struct{})
	defer func() { <-done }()
	time.AfterFunc(time.Second, func() {
		defer close(done)
		s.split(`[{"revisionName":"NAME-1","percent":100}]`)
	})
	began := time.Now()
	s.refused(s.api, s.asked(10, 0), "someone else has changed it since")
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the change was noticed after %s", took)
	}
}

// lag: a split counts only once Serving has put it into effect.
func lag(t *testing.T, s *stage) {
	asked := s.asked(10, 0)
	asked.timeout = time.Second
	s.refused(s.api, asked, "not in effect after 1s: serving has not processed the Service yet")
	// An earlier write is not repeated, but still waited for.
	s.want("1=90,2=10")
	s.serveOnce(t.Context())
	route, err := s.api.Routes(namespace).Get(t.Context(), s.name, metav1.GetOptions{})
	must(t, err)
	route.Status.Conditions[0].Status, route.Status.Conditions[0].Reason = "Unknown", "IngressNotConfigured"
	_, err = s.api.Routes(namespace).UpdateStatus(t.Context(), route, metav1.UpdateOptions{})
	must(t, err)
	s.refused(s.api, asked, "the Route's condition IngressReady is not True: Unknown IngressNotConfigured")
}

func revisions(t *testing.T, s *stage) {
	asked := s.asked(10)
	asked.canary = s.revision("3")
	s.refused(s.api, asked, s.revision("3")+" is not Ready: False Said")
	asked.canary = "nobody"
	s.refused(s.api, asked, `revisions.serving.knative.dev "nobody" not found`)
	other := &servingv1.Revision{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "of-another", Labels: map[string]string{"serving.knative.dev/service": "another"}}}
	other.Spec.Containers = []corev1.Container{{Image: "registry.example.com/cart"}}
	_, err := s.api.Revisions(namespace).Create(t.Context(), other, metav1.CreateOptions{})
	must(t, err)
	asked.canary = "of-another"
	s.refused(s.api, asked, `does not belong to Service revisions, but to "another"`)
	s.want("1=100")

	s.split(`[{"revisionName":"NAME-2","percent":100}]`)
	asked = s.asked(10)
	asked.canary, asked.baseline = s.revision("1"), ""
	s.refused(s.api, asked, "is older than")
	s.serve()
	asked.older = true
	out, _ := s.results()
	must(t, shift(t.Context(), s.api, asked, out))
	s.want("1=10,2=90")
}

func noService(_ *testing.T, s *stage) {
	asked := s.asked(10)
	asked.service = "absent"
	s.refused(s.api, asked, `reading Service default/absent: services.serving.knative.dev "absent" not found`)
}

// shipped: the shipped Role is sufficient for the Service that it names, and for no
// other.
func shipped(t *testing.T, s *stage, cp *controlplane.ControlPlane) {
	s.serve()
	kube, err := kubernetes.NewForConfig(cp.Config())
	must(t, err)
	file, err := os.ReadFile("../../config/tekton/flow/200-roles.yaml")
	must(t, err)
	for document := range strings.SplitSeq(strings.ReplaceAll(string(file), `["cart"]`, `["`+s.name+`"]`), "\n---\n") {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		must(t, err)
		switch o := object.(type) {
		case *rbacv1.Role:
			_, err = kube.RbacV1().Roles(namespace).Create(t.Context(), o, metav1.CreateOptions{})
		case *rbacv1.RoleBinding:
			_, err = kube.RbacV1().RoleBindings(namespace).Create(t.Context(), o, metav1.CreateOptions{})
		default:
			t.Errorf("a %T among the roles", o)
		}
		must(t, err)
	}
	api, err := client.NewForConfig(cp.As("system:serviceaccount:"+namespace+":rollout", "system:serviceaccounts"))
	must(t, err)
	out, _ := s.results()
	// The authorizer caches roles.
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if err = shift(t.Context(), api, s.asked(10, 0), out); err == nil || !strings.Contains(err.Error(), "forbidden") || time.Now().After(end) {
			break
		}
	}
	must(t, err)
	s.want("1=90,2=10")

	asked := s.asked(20)
	asked.service = "not-named"
	s.refused(api, asked, `cannot get resource "services"`)
	// For its own Service, the Role permits only what a rollout needs.
	if err := api.Services(namespace).Delete(t.Context(), s.name, metav1.DeleteOptions{}); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("the Role permits delete: %v", err)
	}
	if _, err := api.Services(namespace).List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("the Role permits listing Services")
	}
}

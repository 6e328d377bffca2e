// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	client "knative.dev/serving/pkg/client/clientset/versioned/typed/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

// The tests share an API server. Each uses a Service of its own.
func TestShift(t *testing.T) {
	cp := controlplane.Start(t)
	must(t, cp.InstallServing(t.Context()))
	api, err := client.NewForConfig(cp.Config())
	must(t, err)
	for name, test := range map[string]func(*testing.T, *stage){
		"a rollout":              rollout,
		"a query":                look,
		"another writer":         anotherWriter,
		"a conflicting split":    anotherSplit,
		"changed while it waits": changedMeanwhile,
		"a Route that lags":      lag,
		"Revisions":              revisions,
		"a missing Service":      noService,
		"with the shipped Role":  func(t *testing.T, s *stage) { shipped(t, s, cp) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stage{T: t, api: api, name: strings.ReplaceAll(strings.ToLower(name), " ", "-")}
			s.name = strings.Trim(strings.ReplaceAll(s.name, "'", ""), "-")
			s.create()
			test(t, s)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stage is a Service with two Revisions, the first of which has all traffic.
type stage struct {
	*testing.T
	api  client.ServingV1Interface
	name string
}

const namespace = "default"

func (s *stage) revision(n string) string { return s.name + "-" + n }

func (s *stage) create() {
	s.Helper()
	ctx := s.Context()
	service := &servingv1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.name}}
	service.Spec.Template.Spec.Containers = []corev1.Container{{Image: "registry.example.com/cart"}}
	service.Spec.Traffic = targets(s.T, `[{"revisionName":"`+s.revision("1")+`","percent":100}]`)
	_, err := s.api.Services(namespace).Create(ctx, service, metav1.CreateOptions{})
	must(s.T, err)
	for n, status := range map[string]corev1.ConditionStatus{"1": corev1.ConditionTrue, "2": corev1.ConditionTrue, "3": corev1.ConditionFalse} {
		r := &servingv1.Revision{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.revision(n), Labels: map[string]string{
			serving.ServiceLabelKey: s.name, serving.ConfigurationGenerationLabelKey: n,
		}}}
		r.Spec.Containers = service.Spec.Template.Spec.Containers
		r, err := s.api.Revisions(namespace).Create(ctx, r, metav1.CreateOptions{})
		must(s.T, err)
		r.Status.ObservedGeneration = r.Generation
		r.Status.Conditions = duckv1.Conditions{{Type: servingv1.RevisionConditionReady, Status: status, Reason: "Said"}}
		_, err = s.api.Revisions(namespace).UpdateStatus(ctx, r, metav1.UpdateOptions{})
		must(s.T, err)
	}
	route := &servingv1.Route{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.name}}
	_, err = s.api.Routes(namespace).Create(ctx, route, metav1.CreateOptions{})
	must(s.T, err)
}

// serve stands in for Serving until the test ends: it copies the traffic from the
// Service to the Route, and updates their status.
func (s *stage) serve() {
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			s.serveOnce(ctx)
			time.Sleep(20 * time.Millisecond)
		}
	}()
	s.Cleanup(func() { cancel(); <-done })
}

// serveOnce gives up on a conflict; the next call retries.
func (s *stage) serveOnce(ctx context.Context) {
	service, err := s.api.Services(namespace).Get(ctx, s.name, metav1.GetOptions{})
	if err != nil {
		return
	}
	route, err := s.api.Routes(namespace).Get(ctx, s.name, metav1.GetOptions{})
	if err != nil {
		return
	}
	route.Spec.Traffic = service.Spec.Traffic
	if route, err = s.api.Routes(namespace).Update(ctx, route, metav1.UpdateOptions{}); err != nil {
		return
	}
	route.Status.ObservedGeneration, route.Status.Traffic = route.Generation, route.Spec.Traffic
	// As with a new tag whose certificate takes its time (serving#12188).
	route.Status.Conditions = duckv1.Conditions{
		{Type: servingv1.RouteConditionIngressReady, Status: corev1.ConditionTrue},
		{Type: servingv1.RouteConditionAllTrafficAssigned, Status: corev1.ConditionTrue},
		{Type: servingv1.RouteConditionCertificateProvisioned, Status: corev1.ConditionUnknown},
		{Type: servingv1.RouteConditionReady, Status: corev1.ConditionUnknown},
	}
	if _, err = s.api.Routes(namespace).UpdateStatus(ctx, route, metav1.UpdateOptions{}); err != nil {
		return
	}
	service.Status.ObservedGeneration = service.Generation
	_, _ = s.api.Services(namespace).UpdateStatus(ctx, service, metav1.UpdateOptions{}) // the next call retries
}

// asked is a request for the second Revision.
func (s *stage) asked(percent int64, from ...int64) request {
	return request{
		namespace: namespace, service: s.name, canary: s.revision("2"), baseline: s.revision("1"),
		percent: percent, from: from, timeout: 20 * time.Second,
	}
}

// results are files, as in Tekton.
func (s *stage) results() (results, func(name string) string) {
	dir := s.TempDir()
	r := results{func(name string) string { return filepath.Join(dir, name) }}
	return r, func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, "RESULT_"+name))
		must(s.T, err)
		return string(data)
	}
}

func (s *stage) want(split string) {
	s.Helper()
	service, err := s.api.Services(namespace).Get(s.Context(), s.name, metav1.GetOptions{})
	must(s.T, err)
	sum, err := pinned(service.Spec.Traffic)
	must(s.T, err)
	if got := strings.ReplaceAll(sum.String(), s.name+"-", ""); got != split {
		s.Errorf("the traffic is %s, want %s", got, split)
	}
}

// refused expects the request to fail with that error.
func (s *stage) refused(api client.ServingV1Interface, r request, why string) {
	s.Helper()
	none := results{func(string) string { return "" }}
	if err := shift(s.Context(), api, r, none); err == nil || !strings.Contains(err.Error(), why) {
		s.Errorf("%v, want %q", err, why)
	}
}

// split writes the traffic as another client.
func (s *stage) split(text string) {
	s.Helper()
	text = `{"spec":{"traffic":` + strings.ReplaceAll(text, "NAME", s.name) + `}}`
	_, err := s.api.Services(namespace).Patch(s.Context(), s.name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
	must(s.T, err)
}

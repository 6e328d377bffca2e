// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// prefix is that of the tests' namespaces.
const prefix = "cdevents-e2e-"

// still is how long no event may arrive before the tests assume that there are no more.
const still = 3 * time.Second

// scene is the namespace of one test, with a sink.
type scene struct {
	*testing.T
	ns   string
	sink *sink
	// sinks are all that were started, with that one.
	sinks []*sink
}

// newScene creates a namespace with a receiver behind a plain Service called "sink".
func newScene(t *testing.T) *scene {
	t.Helper()
	s := emptyScene(t)
	s.sink = s.serve("sink")
	return s
}

// emptyScene creates a namespace.
func emptyScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, ns: fmt.Sprintf("%s%06d", prefix, rand.IntN(1e6))}
	t.Cleanup(func() { s.end() })
	s.must(suite.CreateNamespace(t.Context(), s.ns))
	return s
}

// serve starts a receiver as a pod behind a plain Service.
func (s *scene) serve(name string) *sink { return s.serveWith(name, nil) }

func (s *scene) serveWith(name string, env map[string]string) *sink {
	s.Helper()
	server := kit.Server{Namespace: s.ns, Name: name, Image: suite.receiver, Env: env}
	s.must(suite.Workloads.Serve(s.Context(), server))
	k := &sink{ns: s.ns, selector: server.Selector()}
	s.sinks = append(s.sinks, k)
	return k
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// end logs the state if the test failed, and deletes the namespace without waiting.
func (s *scene) end() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), time.Minute)
	defer cancel()
	if s.Failed() {
		s.dump(ctx)
	}
	policy := metav1.DeletePropagationBackground
	err := suite.Kube.CoreV1().Namespaces().Delete(ctx, s.ns, metav1.DeleteOptions{PropagationPolicy: &policy})
	if err != nil && !apierrors.IsNotFound(err) {
		s.Errorf("removing the namespace: %v", err)
	}
}

func (s *scene) dump(ctx context.Context) {
	var b strings.Builder
	if s.sink != nil {
		events, err := s.sink.events(ctx)
		fmt.Fprintf(&b, "the sink received %d requests (error: %v)\n", len(events), err)
		for _, e := range events[max(0, len(events)-100):] {
			fmt.Fprintf(&b, "  %s\n", e)
		}
	}
	if list, err := suite.Ours.CDEventSources(s.ns).List(ctx, metav1.ListOptions{}); err == nil {
		for i := range list.Items {
			fmt.Fprintf(&b, "CDEventSource %s: %s\n", list.Items[i].Name, compact(list.Items[i].Status))
		}
	}
	if list, err := suite.Ours.CDEventSubjects(kit.Namespace).List(ctx, metav1.ListOptions{}); err == nil {
		for i := range list.Items {
			if list.Items[i].Spec.Namespace == s.ns {
				fmt.Fprintf(&b, "CDEventSubject of %s: %s\n", list.Items[i].Spec.Name, compact(list.Items[i].Status))
			}
		}
	}
	if suite.guest {
		fmt.Fprintf(&b, "the applications' logs end with\n%s", suite.Workloads.Logs(ctx, s.ns, "", 20))
	} else {
		fmt.Fprintf(&b, "the controller's log ends with\n%s", suite.Controller.Log(ctx, 40))
	}
	s.Log(b.String())
}

func compact(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// service returns a plain Service as a destination.
func service(name string) duckv1.Destination {
	return duckv1.Destination{Ref: &duckv1.KReference{APIVersion: "v1", Kind: "Service", Name: name}}
}

// knativeService returns a Knative Service as a destination.
func knativeService(name string) duckv1.Destination {
	return duckv1.Destination{Ref: &duckv1.KReference{APIVersion: "serving.knative.dev/v1", Kind: "Service", Name: name}}
}

func uri(text string) duckv1.Destination {
	u, err := apis.ParseURL(text)
	if err != nil {
		panic(err) // a constant in a test
	}
	return duckv1.Destination{URI: u}
}

// create creates a source without waiting for it.
func (s *scene) create(name string, to duckv1.Destination, options ...func(*v1alpha1.CDEventSourceSpec)) {
	s.Helper()
	source := &v1alpha1.CDEventSource{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.SourceKind.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name},
	}
	source.Spec.Sink = to
	for _, option := range options {
		option(&source.Spec)
	}
	_, err := suite.Ours.CDEventSources(s.ns).Create(s.Context(), source, metav1.CreateOptions{})
	s.must(err)
}

// source creates a source and waits until it is Ready.
func (s *scene) source(name string, to duckv1.Destination, options ...func(*v1alpha1.CDEventSourceSpec)) {
	s.Helper()
	s.create(name, to, options...)
	s.waitSource(name)
}

func (s *scene) waitSource(name string) {
	s.Helper()
	s.must(kit.Wait(s.Context(), time.Minute, "source "+name+" to be Ready", func(ctx context.Context) error {
		source, err := suite.Ours.CDEventSources(s.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := source.Status.GetCondition(apis.ConditionReady)
		if !c.IsTrue() || source.Status.ObservedGeneration != source.Generation {
			return kit.NotYet("conditions: %s", compact(source.Status.Conditions))
		}
		return nil
	}))
}

// deploy creates the sample application and waits until it is Ready.
func (s *scene) deploy(name string) {
	s.Helper()
	s.must(suite.Services.Create(s.Context(), kit.App(s.ns, name, suite.app, "one")))
	_, err := suite.Services.Wait(s.Context(), s.ns, name, "")
	s.must(err)
}

// deleteNamespaces deletes the tests' namespaces, including those of earlier runs.
func deleteNamespaces(ctx context.Context) error {
	list, err := suite.Kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the tests' namespaces: %w", err)
	}
	began, count := time.Now(), 0
	var all errgroup.Group
	for _, ns := range list.Items {
		if strings.HasPrefix(ns.Name, prefix) {
			count++
			all.Go(func() error { return suite.DeleteNamespace(ctx, ns.Name) })
		}
	}
	err = all.Wait()
	if count > 0 {
		say("removed %d namespaces of the tests in %s", count, took(began))
	}
	return err
}

// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// planted counts the secrets of a test, so that each field has one of its own and a finding names the field.
type planted struct{ fields []string }

// in returns a URL that holds a new secret in each way in which URLs carry credentials.
func (p *planted) in(field string) string {
	p.fields = append(p.fields, field)
	secret := fmt.Sprintf("hunter%04d", len(p.fields))
	return "https://ci:" + secret + "@git.example.com/shop/cart?access_token=" + secret + "&ref=main#token=" + secret
}

// found lists the fields whose secret stands in a text.
func (p *planted) found(text string) []string {
	var out []string
	for i, field := range p.fields {
		if strings.Contains(text, fmt.Sprintf("hunter%04d", i+1)) {
			out = append(out, field)
		}
	}
	return out
}

// TestNoSecretLeavesTheCluster writes a URL with credentials into every field that a user fills and that the controller
// reads, and looks for it in everything that the controller writes: events, the ledger, statuses, Kubernetes events,
// logs, metrics, and what the plugin prints.
func TestNoSecretLeavesTheCluster(t *testing.T) {
	s := newScene(t)
	ctx := t.Context()
	var p planted
	s.source("source", service("sink"), func(spec *v1alpha1.CDEventSourceSpec) {
		spec.Environment = &v1alpha1.Environment{ID: p.in("the source's environment.id"), Source: p.in("the source's environment.source")}
		spec.CloudEventOverrides = &duckv1.CloudEventOverrides{Extensions: map[string]string{"team": p.in("the source's ceOverrides")}}
	})
	// Its sink cannot be reached, so conditions and logs say why. A user or a password is refused there.
	address := p.in("the sink of a source")
	_, path, _ := strings.Cut(address, "@")
	s.create("unreachable", uri("http://"+path))
	refused := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{Name: "refused"}}
	refused.Spec.Sink = uri(address)
	if _, err := suite.Ours.CDEventSources(s.ns).Create(ctx, refused, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || len(p.found(err.Error())) > 0 {
		t.Errorf("a password in the URI of a sink: %v", err)
	}
	app := kit.App(s.ns, "cart", suite.app, "one")
	app.Annotations, app.Spec.Template.Annotations = map[string]string{}, map[string]string{}
	for _, name := range cdevents.CarriedAnnotations() {
		app.Annotations[name] = p.in("annotation " + name + " of the Service")
		app.Spec.Template.Annotations[name] = p.in("annotation " + name + " of the template")
	}
	app.Spec.Template.Annotations[v1alpha1.AnnotationRuntime] = p.in("annotation " + v1alpha1.AnnotationRuntime)
	app.Spec.Template.Spec.Containers[0].Env = append(app.Spec.Template.Spec.Containers[0].Env, corev1.EnvVar{Name: "DATABASE", Value: p.in("the container's environment")})
	s.must(suite.Services.Create(ctx, app))
	s.sink.atLeast(t, birth)

	look := func(where, text string) {
		t.Helper()
		if len(text) == 0 {
			t.Errorf("%s: nothing to look at", where)
		}
		for _, field := range p.found(text) {
			t.Errorf("%s: the secret of %s", where, field)
		}
	}
	events, err := s.sink.events(ctx)
	s.must(err)
	for _, e := range events {
		look("event "+e.cd.Context.Type, compact(e.Header)+string(e.Body))
	}
	subjects, err := suite.Ours.CDEventSubjects(kit.Namespace).List(ctx, metav1.ListOptions{})
	s.must(err)
	look("the ledger", compact(subjects.Items))
	sources, err := suite.Ours.CDEventSources(s.ns).List(ctx, metav1.ListOptions{})
	s.must(err)
	for i := range sources.Items {
		look("the status of source "+sources.Items[i].Name, compact(sources.Items[i].Status))
	}
	recorded, err := suite.Kube.CoreV1().Events(s.ns).List(ctx, metav1.ListOptions{})
	s.must(err)
	for i := range recorded.Items {
		if from := recorded.Items[i].Source.Component + recorded.Items[i].ReportingController; strings.Contains(from, "cdevent") {
			look("a Kubernetes event of "+from, compact(recorded.Items[i]))
		}
	}
	look("the logs", suite.Workloads.Logs(ctx, kit.Namespace, "", 100_000))
	s.lookAtMetrics(look)
	dir := t.TempDir()
	s.must(suite.Plugin(ctx, dir))
	for _, command := range []string{"list -n $NS", "list -n $NS -o json", "why -n $NS cart", "why -n $NS unreachable", "history -n $NS cart", "history -n $NS cart -o json"} {
		out, err := suite.Shell(ctx, dir, "kubectl cdevents "+command, map[string]string{"NS": s.ns})
		if err != nil {
			t.Logf("%v", err) // such as that something is wrong with the source
			out = err.Error()
		}
		look("kubectl cdevents "+command, out)
	}
}

// lookAtMetrics passes what each replica exports.
func (s *scene) lookAtMetrics(look func(where, text string)) {
	s.Helper()
	pods, err := suite.Controller.Pods(s.Context())
	s.must(err)
	for i := range pods {
		families, err := suite.Controller.OwnMetrics(s.Context(), &pods[i])
		s.must(err)
		for name, f := range families {
			look("metric "+name+" of "+pods[i].Name, f.String())
		}
	}
}

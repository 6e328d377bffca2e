// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	"knative.dev/serving/pkg/apis/autoscaling"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// labelled restricts a source to Knative Services with a label, because a receiver may be a Knative Service too.
func labelled(spec *v1alpha1.CDEventSourceSpec) {
	spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"watched": "true"}}
}

// deployLabelled is deploy with that label.
func (s *scene) deployLabelled(name string) {
	s.Helper()
	app := kit.App(s.ns, name, suite.app, "one")
	app.Labels = map[string]string{"watched": "true"}
	s.must(suite.Services.Create(s.Context(), app))
	_, err := suite.Services.Wait(s.Context(), s.ns, name, "")
	s.must(err)
}

// serveKnative starts a receiver as a Knative Service.
func (s *scene) serveKnative(name string) *sink {
	s.Helper()
	svc := kit.App(s.ns, name, suite.receiver, "")
	// Exactly one pod: the receiver keeps requests in memory.
	svc.Spec.Template.Annotations = map[string]string{autoscaling.MinScaleAnnotationKey: "1", autoscaling.MaxScaleAnnotationKey: "1"}
	s.must(suite.Services.Create(s.Context(), svc))
	_, err := suite.Services.Wait(s.Context(), s.ns, name, "")
	s.must(err)
	return &sink{ns: s.ns, selector: "serving.knative.dev/service=" + name}
}

// TestSinks sends the events of one Service to sinks of every kind. All receive the same events with the same ids,
// whether they are referenced by URI or by object.
func TestSinks(t *testing.T) {
	sideBySide(t)
	s := newScene(t)
	byKnative := s.serveKnative("knative-sink")
	s.source("by-service", service("sink"), labelled)
	s.source("by-uri", uri("http://sink."+s.ns+".svc.cluster.local/a/path?and=query"), labelled)
	s.source("by-knative-service", knativeService("knative-sink"), labelled)
	relative := service("sink")
	relative.URI = uri("/relative").URI
	s.source("by-service-and-path", relative, labelled)

	s.deployLabelled("shop")
	want := s.sink.exactly(t, birth, at("/"))
	for name, got := range map[string][]event{
		"by URI":                             s.sink.exactly(t, birth, at("/a/path?and=query")),
		"by reference to a Service and path": s.sink.exactly(t, birth, at("/relative")),
		"by reference to a Knative Service":  byKnative.exactly(t, birth),
	} {
		for i := range want {
			if got[i].cd.Context.ID != want[i].cd.Context.ID || string(got[i].Body) != string(want[i].Body) {
				t.Errorf("sink %s received another event:\n%s\nwant\n%s", name, got[i], want[i])
			}
		}
	}
}

// TestUnresolvableSinks checks that the condition and kubectl's columns say what is wrong, and that pending events are
// delivered once the sink exists.
func TestUnresolvableSinks(t *testing.T) {
	sideBySide(t)
	s := newScene(t)
	ctx := t.Context()
	cases := map[string]duckv1.Destination{
		"no-service":         service("late"),
		"no-knative-service": knativeService("nowhere"),
		"no-such-kind":       {Ref: &duckv1.KReference{APIVersion: "example.com/v1", Kind: "Sink", Name: "nowhere"}},
	}
	for name, to := range cases {
		s.create(name, to)
	}
	for name, to := range cases {
		s.must(kit.Wait(ctx, 30*time.Second, "a condition on source "+name+" that says what is wrong", func(ctx context.Context) error {
			source, err := suite.Ours.CDEventSources(s.ns).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			c := source.Status.GetCondition(v1alpha1.SourceConditionSinkProvided)
			if !c.IsFalse() {
				return kit.NotYet("condition SinkProvided: %s", compact(c))
			}
			// If the kind is not installed, the message names the kind.
			if !strings.Contains(c.Message, to.Ref.Name) && !strings.Contains(c.Message, "kind "+to.Ref.Kind) || c.Reason == "" {
				return fmt.Errorf("it does not say what is missing: reason %q, message %q", c.Reason, c.Message)
			}
			t.Logf("%s: %s: %s", name, c.Reason, c.Message)
			return nil
		}))
	}
	table, err := get(ctx, s.ns, "cdeventsources")
	s.must(err)
	t.Logf("kubectl get cdeventsources\n%s", table)
	for name := range cases {
		row := table.row(name)
		if row["Ready"] != "False" || row["Reason"] == "" {
			t.Errorf("kubectl get cdeventsources shows of %s: %v, want Ready False and a reason", name, row)
		}
	}

	// Without a sink, events stay pending.
	s.deploy("shop")
	late := s.serve("late")
	s.waitSource("no-service")
	late.exactly(t, birth)
}

var errNoTable = errors.New("the API server sent no table")

// table is the API server's table output, as "kubectl get" prints it.
type table struct {
	metav1.Table
}

func get(ctx context.Context, ns, resource string) (table, error) {
	var out table
	data, err := suite.Kube.CoreV1().RESTClient().Get().
		AbsPath("/apis", v1alpha1.GroupName, v1alpha1.SchemeGroupVersion.Version, "namespaces", ns, resource).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
	if apierrors.IsNotAcceptable(err) {
		return out, errNoTable
	}
	if err != nil {
		return out, fmt.Errorf("getting %s: %w", resource, err)
	}
	return out, decode(data, &out.Table)
}

func (t table) row(name string) map[string]string {
	for _, r := range t.Rows {
		row := map[string]string{}
		for i, c := range t.ColumnDefinitions {
			row[c.Name] = fmt.Sprint(r.Cells[i])
		}
		if row["Name"] == name {
			return row
		}
	}
	return nil
}

func (t table) String() string {
	var b strings.Builder
	for _, c := range t.ColumnDefinitions {
		if c.Priority == 0 {
			fmt.Fprintf(&b, "%s\t", strings.ToUpper(c.Name))
		}
	}
	for _, r := range t.Rows {
		b.WriteString("\n")
		for i, c := range t.ColumnDefinitions {
			if c.Priority == 0 {
				fmt.Fprintf(&b, "%v\t", r.Cells[i])
			}
		}
	}
	return b.String()
}

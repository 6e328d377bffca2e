// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// tracing starts an OpenTelemetry Collector, and a controller that sends its spans there.
func (s *scene) tracing() *kit.Collector {
	s.Helper()
	began := time.Now()
	c, err := suite.StartCollector(s.Context())
	s.must(err)
	s.Logf("the Collector runs after %s", took(began))
	configure := func(ctx context.Context, protocol, endpoint, rate string) error {
		err := suite.Controller.Configure(ctx, "config-observability", map[string]string{"tracing-protocol": protocol, "tracing-endpoint": endpoint, "tracing-sampling-rate": rate})
		if err != nil {
			return err
		}
		if err := suite.Controller.Restart(ctx); err != nil { // it reads this when it starts
			return err
		}
		return suite.Controller.WaitLeader(ctx)
	}
	s.Cleanup(func() { s.must(configure(context.WithoutCancel(s.Context()), "", "", "")) })
	s.must(configure(s.Context(), "http/protobuf", c.Endpoint, "1"))
	return c
}

// traced waits until the Collector has these spans of a Service's Revision, which must be in one trace, and returns it.
func (s *scene) traced(c *kit.Collector, revision string, names ...string) (id string, spans []kit.Span) {
	s.Helper()
	s.must(kit.Wait(s.Context(), time.Minute, "the trace of "+revision, func(context.Context) error {
		all, err := c.Traces("knative-cdevents", map[string]string{"k8s.namespace.name": s.ns, "kn.revision.name": revision})
		if err != nil {
			return err
		}
		var got []string
		for id, spans = range all {
			for _, span := range spans {
				got = append(got, span.Name)
			}
		}
		for _, name := range names {
			if !slices.ContainsFunc(got, func(n string) bool { return strings.HasPrefix(n, name) }) {
				return kit.NotYet("no span %q: %q", name, got)
			}
		}
		if len(all) != 1 {
			return fmt.Errorf("%s has %d traces: %v", revision, len(all), all)
		}
		return nil
	}))
	for _, span := range spans {
		s.Logf("%s  %s  %-60s %8s  %s", id, span.Start.Format("15:04:05.000"), span.Name, brief(span.End.Sub(span.Start)), span.Replica)
	}
	return id, spans
}

// TestOneTrace follows a rollout with a real OpenTelemetry Collector, while the controller's pods are deleted. All of
// it is in one trace, which the pipeline began.
func TestOneTrace(t *testing.T) {
	onlyInFull(t)
	if suite.guest || !suite.Own() {
		t.Skip("it needs the controller, and a machine that the cluster's pods reach")
	}
	s := newScene(t)
	ctx := t.Context()
	c := s.tracing()
	s.source("releases", service("sink"))
	s.deploy("shop")
	const pipeline, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	first, second := kit.RevisionName("shop", 1), kit.RevisionName("shop", 2)
	s.must(suite.Services.Update(ctx, s.ns, "shop", func(svc *servingv1.Service) {
		kit.SetVersion(svc, "two")
		metav1.SetMetaDataAnnotation(&svc.Spec.Template.ObjectMeta, "cdevents.knative-cdevents.dev/traceparent", "00-"+pipeline+"-"+parent+"-01")
		metav1.SetMetaDataAnnotation(&svc.Spec.Template.ObjectMeta, "cdevents.knative-cdevents.dev/pipeline-started", ago(90*time.Second))
		kit.SetTraffic(svc, kit.Share{Revision: first, Percent: 90}, kit.Share{Revision: second, Percent: 10})
	}))
	_, err := suite.Services.Wait(ctx, s.ns, "shop", second)
	s.must(err)
	s.traced(c, second, "build", "knative-revision.ready", "traffic shifted: ")
	s.must(suite.Controller.Restart(ctx))
	s.must(suite.Controller.WaitLeader(ctx))
	s.must(suite.Services.Update(ctx, s.ns, "shop", func(svc *servingv1.Service) { kit.SetTraffic(svc, kit.Share{Revision: second, Percent: 100}) }))
	s.sink.atLeast(t, []string{upgraded}, about("shop"), typed(upgraded))
	id, spans := s.traced(c, second, "build", "knative-revision.ready", "traffic shifted: ", "service.upgraded", "rollout of "+second, "send to ")
	if id != pipeline {
		t.Errorf("the trace is %s, and the pipeline's is %s", id, pipeline)
	}
	replicas := map[string]bool{}
	for _, span := range spans {
		replicas[span.Replica] = true
		if strings.HasPrefix(span.Name, "rollout of ") && span.Parent != parent {
			t.Errorf("the rollout is below span %q, and not below the pipeline's", span.Parent)
		}
	}
	if len(replicas) < 2 {
		t.Errorf("all spans are from %v, and the controller's pods were deleted in between", replicas)
	}
	// Each event carries the trace.
	events, err := s.sink.events(ctx)
	s.must(err)
	last := events[find(events, upgraded)]
	if got := last.Header.Get("Ce-Traceparent"); !strings.HasPrefix(got, "00-"+pipeline+"-") {
		t.Errorf("the event has the traceparent %q", got)
	}
}

func brief(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

func ago(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339) }

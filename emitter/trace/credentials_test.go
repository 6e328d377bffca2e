// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"knative.dev/pkg/observability/tracing"

	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Whatever a transition carries, no span has a secret.
func TestNoSpanHasCredentials(t *testing.T) {
	const secret = "s3cret-T0ken"
	u := "https://ci:" + secret + "@git.example.com/?token=" + secret
	recorder := tracetest.NewSpanRecorder()
	tracer, stop, err := New(t.Context(), tracing.Config{Protocol: tracing.ProtocolStdout, SamplingRate: 1},
		sdktrace.WithSpanProcessor(recorder))
	if err != nil {
		t.Fatal(err)
	}
	all := rollout(true, map[string]string{cdevents.AnnotationRepository: u, cdevents.AnnotationDeployer: u})
	all[2].Verdict.Reasons, all[2].Verdict.Message = []string{u}, u
	all = append(all, lifecycle.Transition{
		Sequence: 11, Chain: 11, Time: noon, Type: lifecycle.IncidentDetected, Reason: u,
		Incident: &lifecycle.IncidentDetails{Kind: lifecycle.Outage, Trouble: lifecycle.Trouble{Reason: u, Message: u}},
	})
	for i := range all {
		tracer.Journaled(cart, past(all[:i+1]), all[i:i+1])
		tracer.Attempt(tracer.Mark(cart, all[i]), "x",
			"shop/releases")(transport.Outcome{Class: transport.Retry, Err: fmt.Errorf("asking %s", u)})
	}
	if err := stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range recorder.Ended() {
		if said := fmt.Sprint(s.Name(), s.Attributes(), s.Status(), s.Events()); strings.Contains(said, secret) {
			t.Error(said)
		}
	}
	if len(recorder.Ended()) < 2*len(all) {
		t.Errorf("only %d spans", len(recorder.Ended()))
	}
}

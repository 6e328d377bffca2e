// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

// The world is also the sink, and discards the metrics.

// Send implements delivery.Transport. The sink stores what it receives; a flaky one loses
// some of its responses.
func (w *world) Send(_ context.Context, to transport.Target, ev event.Event, _ transport.Policy) transport.Outcome {
	w.effect("send")
	w.meanwhile()
	if w.down[to.Source] {
		return transport.Outcome{Class: transport.Retry, Status: 503, Err: errors.New("503")}
	}
	raw, err := ev.MarshalJSON()
	if err != nil {
		w.fail("an event cannot be encoded: %v", err)
	}
	w.received(to.Source, ev, string(raw))
	w.effect("sent")
	w.meanwhile()
	if w.flaky && w.rng.IntN(20) == 0 {
		return transport.Outcome{Class: transport.Retry, Err: errors.New("the answer was lost")}
	}
	return transport.Outcome{Class: transport.Acknowledged, Status: 202}
}

// Forget implements delivery.Transport.
func (*world) Forget(types.UID) {}

// Attempt implements delivery.Metrics.
func (*world) Attempt(string, string) {}

// Delivered implements delivery.Metrics.
func (*world) Delivered(string, string, time.Duration) {}

// Incomplete implements delivery.Metrics.
func (*world) Incomplete(string) {}

// DeadLetter implements delivery.Metrics.
func (*world) DeadLetter(string) {}

// Conflict implements ledger.Metrics.
func (*world) Conflict() {}

// Refused implements ledger.Metrics.
func (*world) Refused() {}

// Dropped implements ledger.Metrics. The simulation allows no drops.
func (w *world) Dropped(reason string, n int64) { w.fail("%d events dropped: %s", n, reason) }

func newSources(n int) []*v1alpha1.CDEventSource {
	sink, err := apis.ParseURL("http://sink.example.com")
	if err != nil {
		panic(fmt.Sprintf("a constant URL does not parse: %v", err))
	}
	out := make([]*v1alpha1.CDEventSource, 0, n)
	for i := range max(n, 1) {
		s := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("all-%d", i), UID: types.UID(fmt.Sprintf("source-%d", i))}}
		s.Status.SinkURI = sink
		out = append(out, s)
	}
	return out
}

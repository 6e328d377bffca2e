// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"fmt"
	"strings"

	"github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/emitter/delivery/sender"
)

// Transport makes attempts at sinks that are reached in one way.
type Transport interface {
	// Send makes one attempt, and returns within the policy's timeout.
	Send(ctx context.Context, to sender.Target, ev event.Event, with sender.Policy) sender.Outcome
	// Forget frees what is kept for a source. It may be called more than once.
	Forget(source types.UID)
}

// Transports are the ways to reach a sink, by the scheme of its URI. To add one, implement
// Transport, and add its scheme to the map that cmd/controller passes in Options.
type Transports map[string]Transport

// HTTP returns the transports of sinks that are reached over HTTP.
func HTTP(t Transport) Transports { return Transports{"http": t, "https": t} }

// send makes one attempt in the way that the sink's URI asks for.
func (t Transports) send(ctx context.Context, to sender.Target, ev event.Event, with sender.Policy) sender.Outcome {
	scheme, _, _ := strings.Cut(to.URL, ":")
	via, ok := t[strings.ToLower(scheme)]
	if !ok {
		return sender.Outcome{Class: sender.Retry, Err: fmt.Errorf("sending to %s: unsupported protocol scheme %q", to, scheme)}
	}
	return via.Send(ctx, to, ev, with)
}

func (t Transports) forget(source types.UID) {
	for _, via := range t {
		via.Forget(source)
	}
}

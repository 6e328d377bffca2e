// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"fmt"
	"strings"

	"github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/apimachinery/pkg/types"
)

// Transport makes attempts at sinks that are reached in one way.
type Transport interface {
	// Send makes one attempt, and returns within the policy's timeout.
	Send(ctx context.Context, to Target, ev event.Event, with Policy) Outcome
	// Forget frees what is kept for a source. It may be called more than once.
	Forget(source types.UID)
}

// Registry holds the transports, by the scheme of a sink's URI, and is one itself.
type Registry struct {
	all      []Transport
	byScheme map[string]Transport
}

var _ Transport = (*Registry)(nil)

// Register adds a transport for some schemes. Call it before the first Send.
func (r *Registry) Register(schemes Schemes, t Transport) {
	if r.byScheme == nil {
		r.byScheme = map[string]Transport{}
	}
	r.all = append(r.all, t)
	for scheme := range schemes {
		r.byScheme[scheme] = t
	}
}

// Send implements Transport.
func (r *Registry) Send(ctx context.Context, to Target, ev event.Event, with Policy) Outcome {
	scheme, _, _ := strings.Cut(to.URL, ":")
	t, ok := r.byScheme[strings.ToLower(scheme)]
	if !ok {
		return Outcome{Class: Retry, Err: fmt.Errorf("sending to %s: unsupported protocol scheme %q", to, scheme)}
	}
	return t.Send(ctx, to, ev, with)
}

// Forget implements Transport.
func (r *Registry) Forget(source types.UID) {
	for _, t := range r.all {
		t.Forget(source)
	}
}

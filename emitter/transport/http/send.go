// SPDX-License-Identifier: Apache-2.0

// Package http sends CloudEvents to sinks that are reached over HTTP, in the binary or the structured mode of
// CloudEvents' HTTP binding.
//
// Its invariants, besides those of package transport:
//
//   - Acknowledged means that the sink answered this request with 2xx. Redirects are not followed: net/http would
//     send the new address an empty GET and take its 200 for a success.
//   - A reply event in an answer is ignored.
package http

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/hosts"
)

// Schemes are those of sinks that are reached over HTTP.
var Schemes = transport.Schemes{
	"http":  {Credentials: credentials.Rules{Secure: "https"}, Form: "http://HOST/PATH"},
	"https": {Credentials: credentials.Rules{Secure: "https"}, Form: "https://HOST/PATH"},
}

const userAgent = "knative-cdevents"

// Send makes one attempt to deliver ev to the target. It returns within the
// policy's timeout, or earlier when ctx ends.
func (c *Clients) Send(
	ctx context.Context, to transport.Target, ev event.Event, with transport.Policy,
) transport.Outcome {
	out := c.attempt(ctx, to, ev, with)
	if out.Err != nil {
		out.Err = fmt.Errorf("sending to %s: %w", to, out.Err)
	}
	return out
}

func (c *Clients) attempt(
	ctx context.Context, to transport.Target, ev event.Event, with transport.Policy,
) transport.Outcome {
	ctx, cancel := context.WithTimeout(ctx, with.AttemptTimeout())
	defer cancel()
	req, host, err := newRequest(ctx, to.URL)
	if err != nil {
		// The source is wrong, not the event.
		return transport.Outcome{Class: transport.Retry, Err: err}
	}
	if err := encode(req, ev, with.Mode); err != nil {
		return transport.Outcome{Class: transport.Poison, Err: err}
	}
	if err := c.access.Addresses.Permit(host); err != nil {
		return transport.Outcome{Class: transport.Unauthorized, Err: err}
	}
	values, err := c.authorize(ctx, to.Credentials, req)
	if err != nil {
		return transport.Outcome{Class: transport.Unauthorized, Err: err}
	}
	connections, err := c.connections(to, values)
	if err != nil {
		return transport.Outcome{Class: transport.Retry, Err: err}
	}
	resp, err := connections.RoundTrip(req)
	if err != nil {
		out := transport.Outcome{Class: transport.Retry, Err: explain(err, with.AttemptTimeout())}
		if transport.IsRejectedCertificate(err) {
			c.access.Credentials.Rejected(to.Credentials, values)
			out.Class = transport.Unauthorized
		}
		if transport.IsTimeout(err) {
			c.abandon(to.Source, connections)
		}
		return out
	}
	start := finish(resp, cancel)
	out := classify(resp, start, with, c.now())
	if out.Class == transport.Unauthorized {
		c.access.Credentials.Rejected(to.Credentials, values)
	}
	return out
}

// authorize adds the source's credentials to a request. Without them, the event is not sent.
func (c *Clients) authorize(
	ctx context.Context, refs credentials.References, req *http.Request,
) (credentials.Values, error) {
	values, err := c.access.Credentials.For(ctx, refs, req.URL)
	if err != nil {
		return credentials.Values{}, fmt.Errorf("the event is kept until its credentials are available: %w", err)
	}
	values.Authorize(req)
	return values, nil
}

func newRequest(ctx context.Context, to string) (*http.Request, hosts.Host, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, http.NoBody)
	if err != nil {
		return nil, hosts.Host{}, fmt.Errorf("the sink's URI cannot be used: %w", cause(err))
	}
	host, err := hosts.Of(req.URL.Hostname())
	if err != nil {
		return nil, host, fmt.Errorf("the sink's URI cannot be used: the host %w", err)
	}
	req.Header.Set("User-Agent", userAgent)
	// This header is not sent. It lets net/http repeat the request if the idle connection
	// turns out to be closed; a duplicate is the same event.
	req.Header["X-Idempotency-Key"] = nil
	return req, host, nil
}

// encode fails only for an event that will never be accepted.
func encode(req *http.Request, ev event.Event, mode transport.Mode) error {
	if err := ev.Validate(); err != nil {
		return fmt.Errorf("the event is not a valid CloudEvent: %w", err)
	}
	ctx := req.Context()
	encoding := binding.WithForceBinary(ctx)
	if mode == transport.Structured {
		encoding = binding.WithForceStructured(ctx)
	}
	if err := cehttp.WriteRequest(encoding, binding.ToMessage(&ev), req); err != nil {
		return fmt.Errorf("encoding the event: %w", err)
	}
	return encodeHeaders(req.Header)
}

// cause unwraps *url.Error, whose text repeats the whole URL with the secrets in it.
func cause(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// SPDX-License-Identifier: Apache-2.0

// Package sender makes one attempt to send one CloudEvent to one HTTP sink, and reports its
// outcome.
//
// Its invariants:
//
//   - Acknowledged means that the sink itself, at the address that the source names, answered
//     this request with 2xx. Redirects are not followed: net/http would send the new address
//     an empty GET and take its 200 for a success.
//   - Two sources never share a connection, a certificate authority or a client.
//   - No answer can fill the memory, or occupy a worker for longer than the policy's timeout.
//   - A request carries all credentials that its source asks for, or is not sent.
//
// The package neither retries nor waits. The caller decides when to try again, with
// Policy.Backoff and Outcome.RetryAfter.
package sender

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/knative-cdevents/knative-cdevents/emitter/delivery/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery/hosts"
)

const userAgent = "knative-cdevents"

// Send makes one attempt to deliver ev to the target. It returns within the
// policy's timeout, or earlier when ctx ends.
func (c *Clients) Send(ctx context.Context, to Target, ev event.Event, with Policy) Outcome {
	out := c.attempt(ctx, to, ev, with)
	if out.Err != nil {
		out.Err = fmt.Errorf("sending to %s: %w", to, out.Err)
	}
	return out
}

func (c *Clients) attempt(ctx context.Context, to Target, ev event.Event, with Policy) Outcome {
	ctx, cancel := context.WithTimeout(ctx, with.timeout())
	defer cancel()
	req, host, err := newRequest(ctx, to.URL)
	if err != nil {
		// The source is wrong, not the event.
		return Outcome{Class: Retry, Err: err}
	}
	if err := encode(req, ev, with.Mode); err != nil {
		return Outcome{Class: Poison, Err: err}
	}
	if err := c.addresses.permit(host); err != nil {
		return Outcome{Class: Unauthorized, Err: err}
	}
	shown, err := c.show(ctx, to.Show, req)
	if err != nil {
		return Outcome{Class: Unauthorized, Err: err}
	}
	transport, err := c.transport(to, shown)
	if err != nil {
		return Outcome{Class: Retry, Err: err}
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		out := Outcome{Class: Retry, Err: explain(err, with.timeout())}
		if rejectedCertificate(err) {
			c.credentials.Rejected(to.Show, shown)
			out.Class = Unauthorized
		}
		if isTimeout(err) {
			c.abandon(to.Source, transport)
		}
		return out
	}
	start := finish(resp, cancel)
	out := classify(resp, start, with, c.now())
	if out.Class == Unauthorized {
		c.credentials.Rejected(to.Show, shown)
	}
	return out
}

// show adds the source's credentials to a request. Without them, the event is not sent.
func (c *Clients) show(ctx context.Context, what credentials.Want, req *http.Request) (credentials.Shown, error) {
	shown, err := c.credentials.For(ctx, what, req.URL)
	if err != nil {
		return credentials.Shown{}, fmt.Errorf("the event is kept until its credentials are available: %w", err)
	}
	shown.Authorize(req)
	return shown, nil
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
	if user := req.URL.User; user != nil {
		password, _ := user.Password()
		req.SetBasicAuth(user.Username(), password)
	}
	req.Header.Set("User-Agent", userAgent)
	// This header is not sent. It lets net/http repeat the request if the idle connection
	// turns out to be closed; a duplicate is the same event.
	req.Header["X-Idempotency-Key"] = nil
	return req, host, nil
}

// encode fails only for an event that will never be accepted.
func encode(req *http.Request, ev event.Event, mode Mode) error {
	if err := ev.Validate(); err != nil {
		return fmt.Errorf("the event is not a valid CloudEvent: %w", err)
	}
	ctx := req.Context()
	encoding := binding.WithForceBinary(ctx)
	if mode == Structured {
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

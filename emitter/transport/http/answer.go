// SPDX-License-Identifier: Apache-2.0

package http

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

// classify returns the outcome of an answer; start is the beginning of its body.
func classify(resp *http.Response, start []byte, with transport.Policy, now time.Time) transport.Outcome {
	code := resp.StatusCode
	out := transport.Outcome{Class: classOf(code), Status: code}
	answered := "the sink answered " + strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code)))
	switch out.Class {
	case transport.Acknowledged:
		return out
	case transport.Redirected:
		out.Err = redirected(resp, answered)
	case transport.Unauthorized:
		out.Err = errors.New(answered + "; the event is kept: check the sink's credentials, audience and policies")
		out.RetryAfter = retryAfter(resp, with, now)
	case transport.Poison:
		if code == http.StatusBadRequest && resp.Request.URL.Scheme == "http" && speaksTLS(start) {
			return transport.Outcome{
				Class: transport.Retry, Status: code,
				Err: errors.New("the sink speaks TLS on this port; use https:// in its URI"),
			}
		}
		out.Err = errors.New(answered + ": it refuses this event for good")
	case transport.Retry:
		out.Err = errors.New(answered + hint(code))
		out.RetryAfter = retryAfter(resp, with, now)
	}
	return out
}

// classOf retries the statuses that eventing retries, and 425: the sink wants the request
// again, later.
func classOf(code int) transport.Class {
	switch {
	case code >= 200 && code <= 299:
		return transport.Acknowledged
	case code >= 300 && code <= 399:
		return transport.Redirected
	}
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return transport.Unauthorized
	case http.StatusNotFound, // a pod that is not behind its Service yet, or no longer
		http.StatusRequestTimeout,
		http.StatusConflict,
		http.StatusTooEarly,
		http.StatusTooManyRequests:
		return transport.Retry
	}
	if code >= 400 && code <= 499 {
		return transport.Poison
	}
	return transport.Retry
}

func hint(code int) string {
	switch code {
	case http.StatusNotFound:
		return "; the event is retried: check that the sink is ready and that its URI has the right path"
	case http.StatusTooManyRequests:
		return "; the event is retried later"
	default:
		return "; the event is retried: check the sink's logs"
	}
}

func redirected(resp *http.Response, answered string) error {
	to, err := url.Parse(resp.Header.Get("Location"))
	if err != nil || to.Host == "" {
		return errors.New(answered + " (a redirect, which is not followed); the event is kept: use the final URI as " +
			"the sink")
	}
	host := to.Host
	if len(host) > 253 {
		host = host[:253] + "…"
	}
	return fmt.Errorf("%s (a redirect to host %q, which is not followed); the event is kept: use the final URI as "+
		"the sink",
		answered, host)
}

// speaksTLS recognizes how Go, nginx and Apache answer plain HTTP on a TLS port. The event is
// not the cause of that 400.
func speaksTLS(start []byte) bool {
	s := strings.ToLower(string(start))
	return strings.Contains(s, "http request to an https server") ||
		strings.Contains(s, "plain http request was sent to https port") ||
		strings.Contains(s, "speaking plain http to an ssl-enabled")
}

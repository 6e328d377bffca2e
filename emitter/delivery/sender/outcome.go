// SPDX-License-Identifier: Apache-2.0

package sender

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Class says what to do with an event after an attempt.
type Class int

const (
	// Retry keeps the event and tries again: the sink was not reached, or cannot accept
	// the event now.
	Retry Class = iota
	// Acknowledged means that the sink has accepted the event.
	Acknowledged
	// Unauthorized keeps the event until it may be sent: the sink rejects the credentials,
	// there are none, or the host is not allowed.
	Unauthorized
	// Redirected keeps the event until the source names the new address. Redirects are not
	// followed: a sink may not choose who receives the events.
	Redirected
	// Poison is an event that this sink will never accept: a dead letter.
	Poison
)

// String is short enough for a metric's label.
func (c Class) String() string {
	switch c {
	case Retry:
		return "retry"
	case Acknowledged:
		return "acknowledged"
	case Unauthorized:
		return "unauthorized"
	case Redirected:
		return "redirected"
	case Poison:
		return "poison"
	}
	return fmt.Sprintf("class %d", int(c))
}

// Outcome is the result of one attempt.
type Outcome struct {
	Class Class
	// Status is the HTTP status, 0 without an answer.
	Status int
	// RetryAfter is how long the sink asks to be left alone, within the policy's limit; 0
	// if it does not ask.
	RetryAfter time.Duration
	// Err says what happened, where, and what to do; nil if acknowledged. It names the sink
	// by scheme and host only, and never quotes the body of an answer: the author of a
	// source must not read through its status what unreachable services answer.
	Err error
}

// classify returns the outcome of an answer; start is the beginning of its body.
func classify(resp *http.Response, start []byte, with Policy, now time.Time) Outcome {
	code := resp.StatusCode
	out := Outcome{Class: classOf(code), Status: code}
	answered := "the sink answered " + strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code)))
	switch out.Class {
	case Acknowledged:
		return out
	case Redirected:
		out.Err = redirected(resp, answered)
	case Unauthorized:
		out.Err = errors.New(answered + "; the event is kept: check the sink's credentials, audience and policies")
		out.RetryAfter = with.retryAfter(resp, now)
	case Poison:
		if code == http.StatusBadRequest && resp.Request.URL.Scheme == "http" && speaksTLS(start) {
			return Outcome{Class: Retry, Status: code, Err: errors.New("the sink speaks TLS on this port; use https:// in its URI")}
		}
		out.Err = errors.New(answered + ": it refuses this event for good")
	case Retry:
		out.Err = errors.New(answered + hint(code))
		out.RetryAfter = with.retryAfter(resp, now)
	}
	return out
}

// classOf retries the statuses that eventing retries, and 425: the sink wants the request
// again, later.
func classOf(code int) Class {
	switch {
	case code >= 200 && code <= 299:
		return Acknowledged
	case code >= 300 && code <= 399:
		return Redirected
	}
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return Unauthorized
	case http.StatusNotFound, // a pod that is not behind its Service yet, or no longer
		http.StatusRequestTimeout,
		http.StatusConflict,
		http.StatusTooEarly,
		http.StatusTooManyRequests:
		return Retry
	}
	if code >= 400 && code <= 499 {
		return Poison
	}
	return Retry
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
		return errors.New(answered + " (a redirect, which is not followed); the event is kept: use the final URI as the sink")
	}
	host := to.Host
	if len(host) > 253 {
		host = host[:253] + "…"
	}
	return fmt.Errorf("%s (a redirect to host %q, which is not followed); the event is kept: use the final URI as the sink", answered, host)
}

// speaksTLS recognizes how Go, nginx and Apache answer plain HTTP on a TLS port. The event is
// not the cause of that 400.
func speaksTLS(start []byte) bool {
	s := strings.ToLower(string(start))
	return strings.Contains(s, "http request to an https server") ||
		strings.Contains(s, "plain http request was sent to https port") ||
		strings.Contains(s, "speaking plain http to an ssl-enabled")
}

// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
)

// Mode is the content mode of CloudEvents.
type Mode int

const (
	// Binary puts the attributes into headers, and the data into the body.
	Binary Mode = iota
	// Structured puts the whole event into a JSON body.
	Structured
)

// Unlimited keeps an event until its sink accepts it.
const Unlimited = -1

const (
	// defaultTimeout lets a sink that scales from zero in 20 s acknowledge the first attempt.
	defaultTimeout    = 30 * time.Second
	defaultDelay      = time.Second
	maxBackoff        = 5 * time.Minute
	defaultRetryAfter = 5 * time.Minute
	// The limits of what a source may ask for.
	shortest       = 100 * time.Millisecond
	longestTimeout = time.Hour
	longestWait    = 24 * time.Hour
	mostRetries    = 1000
	// spread is the jitter of waiting times, so that events that failed together are not
	// retried together.
	spread = 0.2
)

// Policy is a source's spec.delivery with the defaults filled in.
type Policy struct {
	Mode Mode
	// Retries before an event becomes a dead letter; Unlimited by default.
	Retries int
	// Timeout of one attempt.
	Timeout time.Duration
	// Delay is the first waiting time. Each failure doubles it, or adds Delay if Linear.
	Delay  time.Duration
	Linear bool
	// RetryAfterMax limits how long a sink may ask for; 0 ignores what it asks for.
	RetryAfterMax time.Duration
	// Random gives numbers in [0,1) for the spread; nil for those of math/rand.
	Random func() float64
}

// DefaultPolicy returns the policy of a source without spec.delivery.
func DefaultPolicy() Policy {
	return Policy{Retries: Unlimited, Timeout: defaultTimeout, Delay: defaultDelay, RetryAfterMax: defaultRetryAfter}
}

// NewPolicy parses a source's spec.delivery; nil gives the defaults. The error joins one for
// each invalid field, and names it.
//
// It does not use eventing's parser, which does not wait unless both policy and delay are
// given, and whose exponential times overflow.
func NewPolicy(spec *eventingduckv1.DeliverySpec) (Policy, error) {
	p := DefaultPolicy()
	if spec == nil {
		return p, nil
	}
	var errs []error
	if spec.Retry != nil {
		switch p.Retries = int(*spec.Retry); {
		case p.Retries < 0:
			errs = append(errs, fmt.Errorf("spec.delivery.retry is %d and must not be negative", p.Retries))
		case p.Retries > mostRetries:
			errs = append(errs, fmt.Errorf("spec.delivery.retry is %d; it must not be more than %d; without retry, an event "+
				"is retried until the sink accepts it", p.Retries, mostRetries))
		}
	}
	for _, d := range []struct {
		field   string
		text    *string
		atLeast time.Duration
		atMost  time.Duration
		into    *time.Duration
	}{
		{"timeout", spec.Timeout, shortest, longestTimeout, &p.Timeout},
		{"backoffDelay", spec.BackoffDelay, shortest, longestWait, &p.Delay},
		{"retryAfterMax", spec.RetryAfterMax, 0, longestWait, &p.RetryAfterMax},
	} {
		if err := readDuration(d.text, d.atLeast, d.atMost, d.into); err != nil {
			errs = append(errs, fmt.Errorf("spec.delivery.%s is %q; %w", d.field, *d.text, err))
		}
	}
	if spec.BackoffPolicy != nil {
		switch *spec.BackoffPolicy {
		case eventingduckv1.BackoffPolicyLinear:
			p.Linear = true
		case eventingduckv1.BackoffPolicyExponential:
		default:
			errs = append(errs, fmt.Errorf("spec.delivery.backoffPolicy is %q; it must be linear or exponential",
				*spec.BackoffPolicy))
		}
	}
	if spec.Format != nil {
		switch strings.ToLower(string(*spec.Format)) {
		case "", string(eventingduckv1.DeliveryFormatBinary):
		case string(eventingduckv1.DeliveryFormatJson):
			p.Mode = Structured
		default:
			errs = append(errs, fmt.Errorf("spec.delivery.format is %q; it must be binary or json", *spec.Format))
		}
	}
	return p, errors.Join(errs...)
}

// Exhausted says whether an event is a dead letter after so many failures.
func (p Policy) Exhausted(failures int) bool {
	return p.Retries != Unlimited && failures > p.Retries
}

// Backoff returns how long to wait after so many failures, counted from 1. It never exceeds
// five minutes, or Delay if that is longer.
func (p Policy) Backoff(failures int) time.Duration {
	failures = max(failures, 1)
	factor := math.Exp2(float64(failures - 1))
	if p.Linear {
		factor = float64(failures)
	}
	longest := float64(max(maxBackoff, p.Delay))
	wait := min(float64(p.Delay)*factor, longest)

	random := p.Random
	if random == nil {
		random = rand.Float64
	}
	wait *= 1 - spread + 2*spread*random()
	return time.Duration(min(wait, longest))
}

// LongestWait is the longest time between two attempts, whether the policy or the sink asks for it.
func (p Policy) LongestWait() time.Duration { return max(maxBackoff, p.Delay, p.RetryAfterMax) }

// AttemptTimeout returns the timeout of one attempt, which is never 0.
func (p Policy) AttemptTimeout() time.Duration {
	if p.Timeout <= 0 {
		return defaultTimeout
	}
	return p.Timeout
}

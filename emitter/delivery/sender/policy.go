package sender

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
)

// Mode is how an event is laid out in a request.
type Mode int

const (
	// Binary puts the attributes into headers and the data into the body.
	Binary Mode = iota
	// Structured puts everything into one JSON body.
	Structured
)

// Unlimited says that an event is kept until its sink takes it.
const Unlimited = -1

const (
	// defaultTimeout lets a sink that scales up from zero in 20 s acknowledge the
	// first attempt.
	defaultTimeout    = 30 * time.Second
	defaultDelay      = time.Second
	maxBackoff        = 5 * time.Minute
	defaultRetryAfter = 5 * time.Minute
	// What a source may ask for.
	shortest       = 100 * time.Millisecond
	longestTimeout = time.Hour
	longestWait    = 24 * time.Hour
	// spread is the share by which waiting times differ, so that what failed
	// together does not come back together.
	spread = 0.2
)

// Policy is a source's spec.delivery with the defaults filled in.
type Policy struct {
	Mode Mode
	// Retries before an event becomes a dead letter; Unlimited when not said.
	Retries int
	// Timeout of one attempt.
	Timeout time.Duration
	// Delay is the first waiting time; it doubles with each failure, or grows
	// evenly when Linear.
	Delay  time.Duration
	Linear bool
	// RetryAfterMax bounds what a sink may ask for; 0 lets it ask for nothing.
	RetryAfterMax time.Duration
	// random gives numbers in [0,1) for the spread; nil for those of math/rand.
	random func() float64
}

// DefaultPolicy is that of a source without spec.delivery.
func DefaultPolicy() Policy {
	return Policy{Retries: Unlimited, Timeout: defaultTimeout, Delay: defaultDelay, RetryAfterMax: defaultRetryAfter}
}

// NewPolicy reads a source's spec.delivery; nil gives the defaults. The error joins
// one for each field that cannot be obeyed, and names it.
//
// It is not eventing's reading of the same spec: that one waits for nothing at
// all unless both the policy and the delay are given, and its exponential times
// overflow.
func NewPolicy(spec *eventingduckv1.DeliverySpec) (Policy, error) {
	p := DefaultPolicy()
	if spec == nil {
		return p, nil
	}
	var errs []error
	if spec.Retry != nil {
		if p.Retries = int(*spec.Retry); p.Retries < 0 {
			errs = append(errs, fmt.Errorf("spec.delivery.retry is %d and must not be negative", p.Retries))
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
			errs = append(errs, fmt.Errorf("spec.delivery.backoffPolicy is %q; it must be linear or exponential", *spec.BackoffPolicy))
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

// Exhausted says whether an event that failed so many times is a dead letter.
func (p Policy) Exhausted(failures int) bool {
	return p.Retries != Unlimited && failures > p.Retries
}

// Backoff is how long to wait after so many failures in a row, the first being
// 1. It never exceeds five minutes, or the delay itself where that is longer.
func (p Policy) Backoff(failures int) time.Duration {
	failures = max(failures, 1)
	factor := math.Exp2(float64(failures - 1))
	if p.Linear {
		factor = float64(failures)
	}
	longest := float64(max(maxBackoff, p.Delay))
	wait := min(float64(p.Delay)*factor, longest)

	random := p.random
	if random == nil {
		random = rand.Float64
	}
	wait *= 1 - spread + 2*spread*random()
	return time.Duration(min(wait, longest))
}

func (p Policy) timeout() time.Duration {
	if p.Timeout <= 0 {
		return defaultTimeout
	}
	return p.Timeout
}

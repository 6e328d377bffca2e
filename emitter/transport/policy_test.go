// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"testing"
	"time"

	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
	"knative.dev/pkg/ptr"
)

func TestNewPolicy(t *testing.T) {
	t.Parallel()
	linear, exponential := eventingduckv1.BackoffPolicyLinear, eventingduckv1.BackoffPolicyExponential
	asJSON, asBinary, loud := eventingduckv1.DeliveryFormatJson, eventingduckv1.DeliveryFormatBinary, eventingduckv1.FormatType("JSON")
	type spec = eventingduckv1.DeliverySpec
	tests := []struct {
		name string
		spec *spec
		want func(*Policy)
	}{
		{"no spec", nil, func(*Policy) {}},
		{"empty", &spec{}, func(*Policy) {}},
		{"retry", &spec{Retry: ptr.Int32(3)}, func(p *Policy) { p.Retries = 3 }},
		{"no retry", &spec{Retry: ptr.Int32(0)}, func(p *Policy) { p.Retries = 0 }},
		{"timeout", &spec{Timeout: ptr.String("PT2M")}, func(p *Policy) { p.Timeout = 2 * time.Minute }},
		{"delay without a policy", &spec{BackoffDelay: ptr.String("PT0.2S")}, func(p *Policy) { p.Delay = 200 * time.Millisecond }},
		{"policy without a delay", &spec{BackoffPolicy: &linear}, func(p *Policy) { p.Linear = true }},
		{"both", &spec{BackoffPolicy: &exponential, BackoffDelay: ptr.String("PT5S")}, func(p *Policy) { p.Delay = 5 * time.Second }},
		{"retry after", &spec{RetryAfterMax: ptr.String("PT10S")}, func(p *Policy) { p.RetryAfterMax = 10 * time.Second }},
		{"no retry after", &spec{RetryAfterMax: ptr.String("PT0S")}, func(p *Policy) { p.RetryAfterMax = 0 }},
		{"json", &spec{Format: &asJSON}, func(p *Policy) { p.Mode = Structured }},
		{"upper case", &spec{Format: &loud}, func(p *Policy) { p.Mode = Structured }},
		{"binary", &spec{Format: &asBinary}, func(*Policy) {}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			want := DefaultPolicy()
			tc.want(&want)
			got, err := NewPolicy(tc.spec)
			if err != nil {
				t.Fatal(err)
			}
			// Compare field by field, because functions cannot be compared.
			if got.Random != nil || got.Mode != want.Mode || got.Retries != want.Retries || got.Timeout != want.Timeout ||
				got.Delay != want.Delay || got.Linear != want.Linear || got.RetryAfterMax != want.RetryAfterMax {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestInvalidPolicy(t *testing.T) {
	t.Parallel()
	often, yaml := eventingduckv1.BackoffPolicyType("often"), eventingduckv1.FormatType("yaml")
	type spec = eventingduckv1.DeliverySpec
	for field, s := range map[string]*spec{
		"retry":         {Retry: ptr.Int32(-1)},
		"retry is 1001": {Retry: ptr.Int32(1001)},
		"timeout":       {Timeout: ptr.String("PT0S")},
		"PT30S":         {Timeout: ptr.String("30")},
		"backoffPolicy": {BackoffPolicy: &often},
		"backoffDelay":  {BackoffDelay: ptr.String("1")},
		"too short":     {BackoffDelay: ptr.String("PT0.05S")},
		"for example":   {BackoffDelay: ptr.String("-PT1S")},
		"retryAfterMax": {RetryAfterMax: ptr.String("-PT1S")},
		"ISO 8601":      {RetryAfterMax: ptr.String("soon")},
		"format":        {Format: &yaml},
	} {
		_, err := NewPolicy(s)
		checkError(t, err, field, "spec.delivery")
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"PT30S": 30 * time.Second, "PT0.25S": 250 * time.Millisecond, "PT1M30S": 90 * time.Second,
		"PT1H": time.Hour, "PT90M": 90 * time.Minute, "P1D": 24 * time.Hour, "PT24H": 24 * time.Hour, "PT86400S": 24 * time.Hour, "P0DT1H": time.Hour,
		// The notation of Kubernetes is accepted too, as everywhere else.
		"30s": 30 * time.Second, "1h30m": 90 * time.Minute, "250ms": 250 * time.Millisecond,
		// Years and months are rejected, because they have no fixed length.
		"P1M": -1, "P1Y": -1, "P0M": -1,
		// Large numbers are rejected and do not overflow.
		"P3000000000Y": -1, "P6554D": -1, "P3277D": -1, "PT9223372037S": -1, "P99999999999999999999D": -1, "P2D": -1, "P1DT0.1S": -1,
		"": -1, "P": -1, "PT": -1, "P1DT": -1, "30": -1, "25h": -1, "pt30s": -1, "PT-30S": -1, "PT30": -1, "P30S": -1, "PT0.0001S": -1, " PT30S": -1, "PT30S\n": -1, "+PT30S": -1,
	} {
		p, err := NewPolicy(&eventingduckv1.DeliverySpec{BackoffDelay: &text})
		if want < 0 {
			checkError(t, err, "spec.delivery.backoffDelay")
		} else if err != nil || p.Delay != want {
			t.Errorf("%s: %v, %v; want %v", text, p.Delay, err, want)
		}
	}
	for text, says := range map[string]string{"P1M": "years and months have no fixed length", "P2D": "the longest is 24h0m0s", "PT0S": "the shortest is 100ms"} {
		_, err := NewPolicy(&eventingduckv1.DeliverySpec{BackoffDelay: &text})
		checkError(t, err, says)
	}
	for text, says := range map[string]string{"PT2H": "the longest is 1h0m0s"} {
		_, err := NewPolicy(&eventingduckv1.DeliverySpec{Timeout: &text})
		checkError(t, err, says)
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	middle := func() float64 { return 0.5 }
	exponential := Policy{Delay: time.Second, Random: middle}
	linear := Policy{Delay: time.Second, Linear: true, Random: middle}
	long := Policy{Delay: time.Hour, Random: middle}
	tests := []struct {
		p        Policy
		failures int
		want     time.Duration
	}{
		{exponential, -1, time.Second},
		{exponential, 0, time.Second},
		{exponential, 1, time.Second},
		{exponential, 2, 2 * time.Second},
		{exponential, 9, 256 * time.Second},
		{exponential, 10, maxBackoff},
		{exponential, 64, maxBackoff},
		{exponential, 1 << 40, maxBackoff},
		{linear, 1, time.Second},
		{linear, 60, time.Minute},
		{linear, 1 << 40, maxBackoff},
		{long, 1, time.Hour},
		{long, 5, time.Hour},
	}
	for _, tc := range tests {
		if got := tc.p.Backoff(tc.failures); got != tc.want {
			t.Errorf("linear %v, %d failures: %v, want %v", tc.p.Linear, tc.failures, got, tc.want)
		}
	}
}

func TestBackoffHasJitter(t *testing.T) {
	t.Parallel()
	p := Policy{Delay: 10 * time.Second}
	seen := map[time.Duration]bool{}
	for range 100 {
		d := p.Backoff(1)
		if d < 8*time.Second || d > 12*time.Second {
			t.Errorf("%v is not within a fifth of ten seconds", d)
		}
		seen[d] = true
		if d = p.Backoff(20); d > maxBackoff {
			t.Errorf("%v", d)
		}
	}
	if len(seen) < 50 {
		t.Errorf("only %d different delays", len(seen))
	}
}

func TestExhausted(t *testing.T) {
	t.Parallel()
	if DefaultPolicy().Exhausted(1 << 30) {
		t.Error("a policy without a limit is exhausted")
	}
	p := Policy{Retries: 2}
	if p.Exhausted(2) || !p.Exhausted(3) {
		t.Error("two retries must allow three attempts")
	}
	if !(Policy{Retries: 0}).Exhausted(1) {
		t.Error("no retries must allow one attempt")
	}
}

// SPDX-License-Identifier: Apache-2.0

package http

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

// retryAfter returns the wait that a sink asks for, in seconds or as a date; 0 for anything
// else. A date is compared with the answer's own Date, if there is one: clocks differ.
func retryAfter(resp *http.Response, p transport.Policy, now time.Time) time.Duration {
	asked := strings.TrimSpace(resp.Header.Get("Retry-After"))
	if asked == "" || p.RetryAfterMax <= 0 {
		return 0
	}
	limit := p.RetryAfterMax
	if isDigits(asked) {
		seconds, err := strconv.ParseInt(asked, 10, 64)
		if err != nil || seconds > int64(limit/time.Second) {
			return limit // more than an int64 holds is more than the limit, too
		}
		return time.Duration(seconds) * time.Second
	}
	until, err := http.ParseTime(asked)
	if err != nil {
		return 0
	}
	if its, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		now = its
	}
	return min(max(until.Sub(now), 0), limit)
}

func isDigits(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

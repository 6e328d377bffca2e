package sender

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// retryAfter reads how long the sink asks us to stay away: seconds, or a date.
// What is neither is no request at all. A date is compared with the sink's own
// clock where it tells the time, for clocks differ.
func (p Policy) retryAfter(resp *http.Response, now time.Time) time.Duration {
	asked := strings.TrimSpace(resp.Header.Get("Retry-After"))
	if asked == "" || p.RetryAfterMax <= 0 {
		return 0
	}
	limit := p.RetryAfterMax
	if isDigits(asked) {
		seconds, err := strconv.ParseInt(asked, 10, 64)
		if err != nil || seconds > int64(limit/time.Second) {
			return limit // more than an int64 holds is more than we grant, too
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

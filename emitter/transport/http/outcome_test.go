// SPDX-License-Identifier: Apache-2.0

package http

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

func TestStatusClasses(t *testing.T) {
	t.Parallel()
	classes := map[transport.Class][]int{
		transport.Acknowledged: {200, 201, 202, 204, 206, 226},
		transport.Redirected:   {300, 301, 302, 303, 304, 307, 308},
		transport.Unauthorized: {401, 403, 407},
		transport.Retry:        {404, 408, 409, 425, 429, 500, 501, 502, 503, 504, 507, 599, 600, 999},
		transport.Poison:       {400, 402, 405, 406, 410, 411, 412, 413, 414, 415, 417, 418, 422, 431, 451, 499},
	}
	clients := local()
	for class, codes := range classes {
		for _, code := range codes {
			t.Run(fmt.Sprint(code), func(t *testing.T) {
				s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
				out := clients.Send(t.Context(), at(s.URL), newEvent(t), quick())
				if out.Class != class || out.Status != code {
					t.Errorf("got %v with status %d, want %v", out.Class, out.Status, class)
				}
				if (out.Err == nil) != (class == transport.Acknowledged) {
					t.Errorf("error: %v", out.Err)
				}
				if class != transport.Acknowledged {
					checkError(t, out.Err, "sending to http://127.0.0.1", fmt.Sprint(code))
				}
			})
		}
	}
}

func TestRedirectsAreReportedNotFollowed(t *testing.T) {
	t.Parallel()
	var contacted atomic.Int32
	target := serve(t, func(http.ResponseWriter, *http.Request) { contacted.Add(1) })
	for _, code := range []int{301, 302, 303, 307, 308} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, target.URL+"/login?token="+secret, code)
		})
		out := local().Send(t.Context(), at(s.URL), newEvent(t), quick())
		if out.Class != transport.Redirected {
			t.Errorf("%d: class %v", code, out.Class)
		}
		checkError(t, out.Err, strings.TrimPrefix(target.URL, "http://"), "final URI")
	}
	if n := contacted.Load(); n != 0 {
		t.Errorf("the redirect target received %d requests", n)
	}
}

func TestRedirectWithInvalidLocation(t *testing.T) {
	t.Parallel()
	for _, location := range []string{"", "/login", "http://%zz", "http://" + strings.Repeat("a", 4000)} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", location)
			w.WriteHeader(http.StatusFound)
		})
		out := local().Send(t.Context(), at(s.URL), newEvent(t), quick())
		checkError(t, out.Err, "redirect")
		if out.Class != transport.Redirected || len(out.Err.Error()) > 600 {
			t.Errorf("%.40q: %v %d bytes", location, out.Class, len(out.Err.Error()))
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	date := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	tests := []struct {
		name, header string
		limit        time.Duration
		atLeast      time.Duration
		atMost       time.Duration
	}{
		{"no header", "", time.Minute, 0, 0},
		{"seconds", "7", time.Minute, 7 * time.Second, 7 * time.Second},
		{"spaces", " 7 ", time.Minute, 7 * time.Second, 7 * time.Second},
		{"zero", "0", time.Minute, 0, 0},
		{"seconds over the limit", "3600", time.Minute, time.Minute, time.Minute},
		{"more than a duration holds", "9223372036854775807", time.Minute, time.Minute, time.Minute},
		{"more than an int64 holds", "92233720368547758070", time.Minute, time.Minute, time.Minute},
		{"negative", "-7", time.Minute, 0, 0},
		{"date", date(20 * time.Second), time.Minute, 18 * time.Second, 21 * time.Second},
		{"date over the limit", date(time.Hour), time.Minute, time.Minute, time.Minute},
		{"past date", date(-time.Hour), time.Minute, 0, 0},
		{"garbage", "soon", time.Minute, 0, 0},
		{"fraction", "1.5", time.Minute, 0, 0},
		{"switched off", "7", 0, 0, 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", tc.header)
				w.WriteHeader(http.StatusServiceUnavailable)
			})
			p := quick()
			p.RetryAfterMax = tc.limit
			out := local().Send(t.Context(), at(s.URL), newEvent(t), p)
			if out.Class != transport.Retry || out.RetryAfter < tc.atLeast || out.RetryAfter > tc.atMost {
				t.Errorf("got %v after %v, want between %v and %v", out.Class, out.RetryAfter, tc.atLeast, tc.atMost)
			}
		})
	}
}

func TestRetryAfterUsesTheSinksClock(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		its := time.Now().Add(-24 * time.Hour)
		w.Header().Set("Date", its.UTC().Format(http.TimeFormat))
		w.Header().Set("Retry-After", its.Add(30*time.Second).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusTooManyRequests)
	})
	if out := local().Send(t.Context(), at(s.URL), newEvent(t), quick()); out.RetryAfter != 30*time.Second {
		t.Errorf("got %v", out.RetryAfter)
	}
}

// SPDX-License-Identifier: Apache-2.0

package web

import (
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

// Failures that a measurement at the entry sees only in part.
const (
	// pathAbort aborts in the middle of a response.
	pathAbort = "/abort"
	// pathStall starts a response and never finishes it.
	pathStall = "/stall"
	// pathSleep responds within the Revision's time-out, but too late for an impatient client.
	pathSleep = "/sleep"
	// pathDepends needs something that is away.
	pathDepends = "/depends"
	// A request of this type fails as in gRPC: with status 200, and the error in a trailer.
	grpc = "application/grpc"
)

// Durations of the failures.
const (
	stalls = time.Minute
	sleeps = 2 * time.Second
	slow   = time.Second
	hangs  = time.Hour
)

// shares are those of the requests that a build treats badly, each in its way.
type shares struct{ errors, missing, slow, hanging float64 }

// status returns that of the answer to a request, when it is time to answer.
func (s shares) status(r *http.Request, fate float64) int {
	switch {
	case fate < s.errors:
		return http.StatusInternalServerError
	case fate < s.errors+s.missing:
		return http.StatusNotFound
	case fate < s.errors+s.missing+s.slow:
		wait(r, slow)
	case fate < s.errors+s.missing+s.slow+s.hanging:
		wait(r, hangs)
	}
	return http.StatusOK
}

// fate depends on the id of a request alone, if it has one.
func fate(r *http.Request) float64 {
	if id := r.Header.Get("X-Request-Id"); id != "" {
		return Draw(id)
	}
	return rand.Float64()
}

// Draw returns a number from 0 to 1 for the id of a request, the same in each application: the request is treated alike
// wherever a build with the same shares handles it.
func Draw(id string) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // a hash never fails
	const kinds = 10000
	// The low bits of similar ids are similar.
	return float64(h.Sum64()>>32%kinds) / kinds
}

// fails handles requests for failures. It returns false for all others.
func fails(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case r.Header.Get("Content-Type") == grpc:
		w.Header().Set("Content-Type", grpc)
		w.Header().Set("Trailer", "Grpc-Status")
		w.WriteHeader(http.StatusOK)
		w.Header().Set("Grpc-Status", "13") // INTERNAL
	case r.URL.Path == pathDepends:
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == pathAbort:
		begin(w)
		panic(http.ErrAbortHandler)
	case r.URL.Path == pathStall:
		begin(w)
		wait(r, stalls)
	case r.URL.Path == pathSleep:
		wait(r, sleeps)
		begin(w)
	default:
		return false
	}
	return true
}

func begin(w http.ResponseWriter) {
	w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(w, "half of") // ignore a client that has disconnected
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}

func wait(r *http.Request, d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}

// SPDX-License-Identifier: Apache-2.0

package web

import (
	"io"
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
	// A request of this type fails as in gRPC: with status 200, and the error in a trailer.
	grpc = "application/grpc"
)

// Durations of the failures.
const (
	stalls = time.Minute
	sleeps = 2 * time.Second
)

// fails handles requests for failures. It returns false for all others.
func fails(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case r.Header.Get("Content-Type") == grpc:
		w.Header().Set("Content-Type", grpc)
		w.Header().Set("Trailer", "Grpc-Status")
		w.WriteHeader(http.StatusOK)
		w.Header().Set("Grpc-Status", "13") // INTERNAL
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

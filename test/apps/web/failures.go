package web

import (
	"io"
	"net/http"
	"time"
)

// The ways in which an application fails that whoever counts at the entry sees only in part.
const (
	// pathAbort breaks off in the middle of an answer.
	pathAbort = "/abort"
	// pathStall begins an answer and does not end it.
	pathStall = "/stall"
	// pathSleep answers in time, and too late for an impatient client.
	pathSleep = "/sleep"
	// A request of this type is answered as gRPC answers an error: with status 200, and the truth in a trailer.
	grpc = "application/grpc"
)

// How long they take.
const (
	stalls = time.Minute
	sleeps = 2 * time.Second
)

// fails answers requests for failures. It returns false for all others.
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
	_, _ = io.WriteString(w, "half of") // a client that went away is no concern of the application's
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

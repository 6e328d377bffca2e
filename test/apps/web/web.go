// SPDX-License-Identifier: Apache-2.0

// Package web is a small web application for the tests and the demo.
//
// Invariant: each response names the Revision that served it, so that a client can measure the real traffic split
// instead of trusting the requested one.
package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// Main runs the application until it is terminated. Environment variable VERSION overrides the version that it was
// built with.
func Main(version string) {
	bad := shares{errors: share("ERROR_RATE"), missing: share("MISSING_RATE"), slow: share("SLOW_RATE"), hanging: share("HANG_RATE")}
	// A Revision that never becomes Ready, for scenarios that need one.
	if os.Getenv("BROKEN") != "" {
		log.Fatal("BROKEN is set")
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	Run(ctx, answer(os.Getenv("K_REVISION"), cmp.Or(os.Getenv("VERSION"), version), bad, fate), 10*time.Second)
}

// share reads an environment variable.
func share(name string) float64 {
	given := cmp.Or(os.Getenv(name), "0")
	rate, err := strconv.ParseFloat(given, 64)
	if err != nil || rate < 0 || rate > 1 {
		log.Fatalf("%s=%q is not a share from 0 to 1", name, given)
	}
	return rate
}

// Run serves at PORT until the context ends. Requests that are open then have a grace period to end.
func Run(ctx context.Context, handler http.Handler, grace time.Duration) {
	server := &http.Server{
		Addr: ":" + cmp.Or(os.Getenv("PORT"), "8080"), Handler: handler,
		ReadHeaderTimeout: 10 * time.Second, Protocols: &http.Protocols{},
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true) // as gRPC speaks it
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-ctx.Done()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		if err := server.Shutdown(ending); err != nil {
			log.Printf("ending: %v", err)
		}
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatalf("serving: %v", err)
	}
	<-ended
}

// answer is the application's handler; fate returns a number from 0 to 1 for each request.
func answer(revision, version string, bad shares, fate func(*http.Request) float64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fails(w, r) {
			return
		}
		status := bad.status(r, fate(r))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		// Ignore a client that has disconnected.
		_ = json.NewEncoder(w).Encode(map[string]string{"revision": revision, "version": version})
	})
}

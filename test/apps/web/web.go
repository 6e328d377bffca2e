// Package web is a small web application to deploy, for the tests and the demo.
//
// Invariant: each answer names the Revision that gave it, so that a client can measure how the traffic is
// really split instead of believing what was asked for.
package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// Main runs the application until it is told to end. Environment variable VERSION overrides the version that
// it was built with.
func Main(version string) {
	errorRate := 0.0
	if s := os.Getenv("ERROR_RATE"); s != "" {
		rate, err := strconv.ParseFloat(s, 64)
		if err != nil || rate < 0 || rate > 1 {
			log.Fatalf("ERROR_RATE=%q is not a share from 0 to 1", s)
		}
		errorRate = rate
	}
	// A Revision that never becomes Ready, for whoever wants to see that.
	if os.Getenv("BROKEN") != "" {
		log.Fatal("BROKEN is set")
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server := &http.Server{
		Addr:              ":" + cmp.Or(os.Getenv("PORT"), "8080"),
		Handler:           answer(os.Getenv("K_REVISION"), cmp.Or(os.Getenv("VERSION"), version), errorRate, rand.Float64),
		ReadHeaderTimeout: 10 * time.Second,
		Protocols:         &http.Protocols{},
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true) // as gRPC speaks it
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(grace); err != nil {
			log.Printf("ending: %v", err)
		}
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatalf("serving: %v", err)
	}
	<-ended
}

// answer serves the application; chance is a number from 0 to 1 for each request.
func answer(revision, version string, errorRate float64, chance func() float64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fails(w, r) {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if chance() < errorRate {
			w.WriteHeader(http.StatusInternalServerError)
		}
		// A client that went away is no concern of the application's.
		_ = json.NewEncoder(w).Encode(map[string]string{"revision": revision, "version": version})
	})
}

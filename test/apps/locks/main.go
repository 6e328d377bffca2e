// SPDX-License-Identifier: Apache-2.0

// Command locks hands out one lock for each name, to see whether two pods ever run the same entity at once.
//
// Invariant: it refuses nothing. A second holder gets the lock too, and is recorded with the first one, so that a test
// can count how often this happened. It is outside of the cluster under test, and shares no code with it.
package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server := &http.Server{Addr: ":" + cmp.Or(os.Getenv("PORT"), "8080"), Handler: newLocks(time.Now).handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close() // tests wait until the pod is deleted
	}()
	log.Printf("handing out locks on %s", server.Addr)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatalf("handing out locks: %v", err)
	}
}

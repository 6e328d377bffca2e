// SPDX-License-Identifier: Apache-2.0

// Command cart is an application with carts in memory that knows nothing of pods: the sidecar of clients/sidecar in
// front of it sends all requests of a cart to one pod.
//
// Invariant: it trusts no promise of the sidecar. A request whose headers break one, or that comes without them, is
// answered by an outcome that says so, and what it handles holds a lock in a program outside of the cluster
// (test/apps/locks), which sees whether two pods do so at once.
package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rate, err := strconv.ParseFloat(cmp.Or(os.Getenv("FAIL_RATE"), "0"), 64)
	if err != nil || rate < 0 || rate > 1 {
		log.Fatalf("FAIL_RATE=%q is not a share from 0 to 1", os.Getenv("FAIL_RATE"))
	}
	c := newCarts(place{Revision: os.Getenv("K_REVISION"), Pod: os.Getenv("HOSTNAME")}, os.Getenv("LOCKS"), rate)
	// Tests look for the connection of each pod.
	end, err := c.lock(ctx, "")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = end() }() // it is not collected meanwhile
	server := &http.Server{
		Addr: ":" + cmp.Or(os.Getenv("PORT"), "8080"), Handler: c.handler(), ReadHeaderTimeout: 10 * time.Second,
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-ctx.Done()
		// What the sidecar still sends must have ended before kubelet asks this program to end.
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
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

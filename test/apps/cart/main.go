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
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/apps/web"
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
	// What the sidecar still sends must have ended before kubelet asks this program to end.
	web.Run(ctx, c.handler(), time.Second)
}

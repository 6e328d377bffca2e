// SPDX-License-Identifier: Apache-2.0

// Command sharded is an application whose requests are often handled by another pod than the one they entered: its
// carts live in shards, and each shard is a virtual actor in a cluster of all pods of all Revisions of its Service.
//
// Invariant: the member that handles a request counts it, and the answer names that member. So a client knows the
// truth without any metrics, and can check a reader of the metrics against it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// metricsPort appears in the template's annotations only: Knative allows one declared port, and queue-proxy uses 9090
// and 9091.
const metricsPort = "9099"

// linger is how long the final counters can still be scraped.
const linger = 3 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("ending", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	conf, err := configFrom(os.Getenv)
	if err != nil {
		return err
	}
	self, err := findPod(ctx, conf.Self.Pod)
	if err != nil {
		return err
	}
	if err := self.forget(ctx); err != nil {
		return err
	}
	counts := newCounts(conf)
	m, err := self.newMember(ctx, conf, counts)
	if err != nil {
		return err
	}

	failed := make(chan error, 3)
	front := serve(failed, ":"+conf.Port, newFront(conf, m))
	inside := serve(failed, ":"+metricsPort, counts.handler(m, func() { os.Exit(1) }))
	go func() {
		m.start()
		failed <- m.watch(ctx)
	}()

	select {
	case err = <-failed:
		err = fmt.Errorf("after the start: %w", err)
	case <-ctx.Done():
	}
	// First finish requests that entered here, then move the shards away; then the counters are final.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = errors.Join(err, front.Shutdown(grace))
	m.leave(grace)
	time.Sleep(linger)
	return errors.Join(err, inside.Close())
}

func serve(failed chan<- error, address string, handler http.Handler) *http.Server {
	s := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serving %s: %w", address, err)
		}
	}()
	return s
}

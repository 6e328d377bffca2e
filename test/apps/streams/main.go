// SPDX-License-Identifier: Apache-2.0

// Command streams is an application with all that a container may do over HTTP besides short requests: WebSockets,
// server-sent events, large uploads, and calls of gRPC that stream both ways.
//
// Invariant: nothing that a test learns from it depends on a clock. It says what it has seen of a stream when it is asked
// by another request with the same key, which comes to the same pod, and it writes the next event when it is told to.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/apps/web"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := newStreams(os.Getenv("HOSTNAME"))
	// A server of gRPC alone speaks no HTTP/1.1.
	if os.Getenv("GRPC") != "" {
		s.serveGRPC(ctx)
		return
	}
	web.Run(ctx, s.handler(), time.Second)
}

// SPDX-License-Identifier: Apache-2.0

// Command sidecar makes the container beside it a member of a cluster that shards requests by key.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/knative-cdevents/knative-cdevents/clients/sidecar"
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	if err := run(log); err != nil {
		log.Error("the sidecar ends", "error", err)
		os.Exit(1)
	}
}

func run(log *slog.Logger) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	config, err := sidecar.FromEnvironment(os.Environ())
	if err != nil {
		return fmt.Errorf("the configuration is not right: %w", err)
	}
	s, err := sidecar.New(config, log)
	if err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	return s.Run(ctx) //nolint:wrapcheck // complete
}

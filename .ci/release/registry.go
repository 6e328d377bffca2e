// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// serveRegistry runs a registry for tests on the loopback interface, and prints its address. It keeps everything in
// memory.
func serveRegistry(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("starting a registry: %w", err)
	}
	quiet := registry.Logger(log.New(io.Discard, "", 0))
	s := &http.Server{Handler: registry.New(quiet, registry.WithReferrersSupport(true)), ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	fmt.Println(l.Addr())
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving a registry: %w", err)
	}
	return nil
}

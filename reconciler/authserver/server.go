// SPDX-License-Identifier: Apache-2.0

// Package authserver serves HTTP to clients inside the cluster that authenticate with tokens of ServiceAccounts,
// which the API server reviews: a pipeline that requests a verdict, a pod that requests its placement.
//
// Its invariants:
//   - A new connection never waits for an old one. At the limit, the one with the lowest priority is evicted.
//   - A token that was accepted recently never waits for the review of an unknown one.
//   - Where a certificate is configured, nothing goes over plain text.
package authserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Limits for each client, and for all of them.
const (
	headerWithin = 5 * time.Second
	readWithin   = 10 * time.Second
	writeWithin  = 15 * time.Second
	idleFor      = time.Minute
	maxHeader    = 32 << 10
	// MaxConnected is the number of connections. Each waiting pod has one.
	MaxConnected = 1024
	endWithin    = time.Second
)

// Serve serves at address until ctx ends. It uses TLS if the directory contains tls.crt
// and tls.key at the start, as a mounted Secret does. New connections use a renewed
// certificate.
func Serve(ctx context.Context, address, certificate string, handler http.Handler) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening at %s: %w", address, err)
	}
	return ServeListener(ctx, listener, certificate, handler)
}

// ServeListener is Serve for a listener, which it closes.
func ServeListener(ctx context.Context, listener net.Listener, certificate string, handler http.Handler) error {
	limited := newListener(listener, MaxConnected)
	listener = limited
	pair := func() (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(filepath.Join(certificate, "tls.crt"), filepath.Join(certificate, "tls.key"))
		return &c, err
	}
	switch _, err := pair(); {
	case err == nil:
		listener = tls.NewListener(listener, &tls.Config{
			MinVersion:     tls.VersionTLS12,
			NextProtos:     []string{"http/1.1"},
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair() },
		})
	case !errors.Is(err, os.ErrNotExist):
		// With a certificate configured, never fall back to sending tokens in plain text.
		return errors.Join(fmt.Errorf("reading the certificate in %s: %w", certificate, err), listener.Close())
	}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: headerWithin, ReadTimeout: readWithin, WriteTimeout: writeWithin,
		IdleTimeout:    idleFor,
		MaxHeaderBytes: maxHeader,
		ConnState:      limited.setState, ConnContext: limited.withConn,
	}
	ended := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
		defer cancel()
		ended <- server.Shutdown(last)
	})
	err := server.Serve(listener)
	if stop() || !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	if err := <-ended; err != nil {
		return fmt.Errorf("ending: %w", errors.Join(err, server.Close()))
	}
	return nil
}

package web

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

// Limits for each client.
const (
	headerWithin = 5 * time.Second
	readWithin   = 10 * time.Second
	writeWithin  = 15 * time.Second
	idleFor      = time.Minute
	maxHeader    = 32 << 10
	maxConnected = 256
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
	return serve(ctx, listener, certificate, handler)
}

func serve(ctx context.Context, listener net.Listener, certificate string, handler http.Handler) error {
	visitors := newCrowd(listener, maxConnected)
	listener = visitors
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
		Handler: handler, ReadHeaderTimeout: headerWithin, ReadTimeout: readWithin, WriteTimeout: writeWithin, IdleTimeout: idleFor, MaxHeaderBytes: maxHeader,
		ConnState: visitors.is, ConnContext: visitors.with,
	}
	ended := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
		defer cancel()
		ended <- server.Shutdown(last)
	})
	err := server.Serve(listener)
	if stop() || !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving verdicts: %w", err)
	}
	if err := <-ended; err != nil {
		return fmt.Errorf("ending: %w", errors.Join(err, server.Close()))
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

// Command receiver is a sink for tests: it stores every request unchanged, with headers, body and time of arrival,
// in order of arrival, and returns them for the test to check.
//
// Invariant: GET /requests returns exactly what was received. The receiver shares no code with the controller under
// test, and does not interpret CloudEvents or CDEvents.
package main

import (
	"cmp"
	"context"
	"crypto/tls"
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
	server := &http.Server{
		Addr:              ":" + cmp.Or(os.Getenv("PORT"), "8080"),
		Handler:           newReceiver(time.Now),
		ReadHeaderTimeout: 10 * time.Second,
		// Requests that hang on purpose end with the process.
	}
	go func() {
		<-ctx.Done()
		// Exit at once: tests wait until the pod is deleted.
		_ = server.Close()
	}()
	if os.Getenv("TLS_CERT") != "" {
		go serveTLS(ctx, server.Handler)
	}
	log.Printf("receiving on %s", server.Addr)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatalf("receiving: %v", err)
	}
}

// serveTLS also serves port 8443, with the certificate and key in TLS_CERT and TLS_KEY.
func serveTLS(ctx context.Context, handler http.Handler) {
	cert, err := tls.X509KeyPair([]byte(os.Getenv("TLS_CERT")), []byte(os.Getenv("TLS_KEY")))
	if err != nil {
		log.Fatalf("reading TLS_CERT and TLS_KEY: %v", err)
	}
	server := &http.Server{
		Addr: ":8443", Handler: handler, ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
	}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.ListenAndServeTLS("", ""); !errors.Is(err, http.ErrServerClosed) {
		log.Fatalf("receiving by TLS: %v", err)
	}
}

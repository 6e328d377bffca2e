// Command receiver is a sink that believes nothing: it keeps every request as it came, headers, body and time
// of arrival, in the order of arrival, and hands them out again for a test to judge.
//
// Invariant: what GET /requests returns is what was received, not what the receiver made of it. It shares no
// code with the controller that it is to judge, and knows neither CloudEvents nor CDEvents.
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
		// Requests that hang on purpose end with the program.
	}
	go func() {
		<-ctx.Done()
		// A pod that is deleted shall be gone at once: the tests wait for it.
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

// serveTLS receives on port 8443, too, with the certificate and the key that TLS_CERT and TLS_KEY hold.
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

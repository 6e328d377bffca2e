// Command receiver is a sink that believes nothing: it keeps every request as it came, headers, body and time
// of arrival, in the order of arrival, and hands them out again for a test to judge.
//
// Invariant: what GET /requests returns is what was received, not what the receiver made of it. It shares no
// code with the controller that it is to judge, and knows neither CloudEvents nor CDEvents.
package main

import (
	"cmp"
	"context"
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
	log.Printf("receiving on %s", server.Addr)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatalf("receiving: %v", err)
	}
}

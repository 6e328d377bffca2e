// SPDX-License-Identifier: Apache-2.0

// Command display is a sink for trying out a source: it prints every CloudEvent that it
// receives, for `kubectl logs`, and stores nothing.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log.SetFlags(0) // in the log, only events begin with a time
	server := &http.Server{
		Addr: ":" + cmp.Or(os.Getenv("PORT"), "8080"), Handler: &display{out: os.Stdout},
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
	}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	log.Printf("receiving on %s", server.Addr)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatalf("receiving: %v", err)
	}
}

// maxBody is above the size limit of an event.
const maxBody = 1 << 20

// display prints one event at a time.
type display struct {
	mu  sync.Mutex
	out io.Writer
}

func (d *display) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		w.WriteHeader(http.StatusNoContent) // a probe
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	message := cehttp.NewMessageFromHttpRequest(r)
	defer func() { _ = message.Finish(nil) }()
	e, err := binding.ToEvent(r.Context(), message)
	if err != nil {
		http.Error(w, "this is not a CloudEvent: "+err.Error(), http.StatusBadRequest)
		return
	}
	var data bytes.Buffer
	if json.Indent(&data, e.Data(), "  ", "  ") != nil {
		data.Reset()
		fmt.Fprintf(&data, "%d bytes of %s", len(e.Data()), e.DataContentType())
	}
	line := sanitize.Visible(fmt.Sprintf("%s %s %s", e.Time().UTC().Format(time.RFC3339), e.Type(), e.Subject()))
	line += "\n  " + sanitize.Visible(fmt.Sprintf("id %s, source %s", e.ID(), e.Source()))
	d.mu.Lock()
	defer d.mu.Unlock()
	// Anyone may send an event, and JSON may contain what a terminal obeys.
	if _, err := fmt.Fprintf(d.out, "%s\n  %s\n", line, sanitize.VisibleLines(data.String())); err != nil {
		http.Error(w, "the event cannot be printed", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// SPDX-License-Identifier: Apache-2.0

// Package page serves the dashboard: a page on this machine that shows a fleet and its rollouts as they happen.
//
// Its invariants: it reads with the rights that its reader has, and writes nothing. It answers only on the loopback
// interface, only under an address with a secret, and only to requests that name this machine as their
// host. The page loads nothing from anywhere else, and its Content-Security-Policy does not let it.
package page

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/knative-cdevents/knative-cdevents/cli/advice"
	"github.com/knative-cdevents/knative-cdevents/cli/reader"
	"github.com/knative-cdevents/knative-cdevents/cli/report"
)

//go:embed assets
var embedded embed.FS

// Options are what the page shows, and where.
type Options struct {
	// Reader reads from the cluster.
	Reader *reader.Reader
	// Namespace to show, or "" for all.
	Namespace string
	// Cluster is how the user calls the cluster, such as the name of a context.
	Cluster string
	// Port of 127.0.0.1 to listen on; 0 for any that is free.
	Port int
	// Now is the clock.
	Now func() time.Time
}

// Server serves the page.
type Server struct {
	Options
	listener net.Listener
	token    string
	live     *reader.Live
	seen     *record

	mu      sync.Mutex
	readers map[chan struct{}]bool
}

// New starts to read and to listen, until ctx is done. Serve answers.
func New(ctx context.Context, o Options) (*Server, error) {
	secret := make([]byte, 18)
	if _, err := rand.Read(secret); err != nil {
		return nil, fmt.Errorf("making a secret for the address: %w", err)
	}
	s := &Server{
		Options: o, token: base64.RawURLEncoding.EncodeToString(secret), seen: newRecord(),
		readers: map[chan struct{}]bool{},
	}
	live, err := o.Reader.Live(ctx, o.Namespace, s.changed)
	if err != nil {
		return nil, err
	}
	s.live = live
	if _, err := s.reporter().Fleet(ctx, o.Namespace); err != nil {
		return nil, err
	}
	var listen net.ListenConfig
	if s.listener, err = listen.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port))); err != nil {
		return nil, fmt.Errorf("listening on this machine: %w", err)
	}
	return s, nil
}

// URL is the address of the page. It contains the secret.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() + "/" + s.token + "/" }

// Serve answers until ctx is done.
func (s *Server) Serve(ctx context.Context) error {
	assets, err := fs.Sub(embedded, "assets")
	if err != nil {
		return fmt.Errorf("reading the page: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", http.FileServerFS(assets))
	mux.Handle("GET /", http.FileServerFS(assets))
	mux.HandleFunc("GET /live", s.stream)
	server := &http.Server{
		Handler: guard(s.token, mux), ReadHeaderTimeout: 5 * time.Second,
		// A stream ends when ctx does.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(s.listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving the page: %w", err)
	case <-ctx.Done():
	}
	// A browser may keep a connection open for long: it is not waited for.
	if err := server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("ending the page: %w", err)
	}
	return nil
}

func (s *Server) reporter() *report.Reporter {
	return &report.Reporter{Reads: s.live, Clock: advice.Clock{Now: s.Now(), System: s.Reader.System}}
}

// changed wakes all streams.
func (s *Server) changed(c reader.Change) {
	s.seen.change(s.Now(), c)
	s.mu.Lock()
	defer s.mu.Unlock()
	for wake := range s.readers {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// subscribe returns what is sent to after each change, until the function is called.
func (s *Server) subscribe() (<-chan struct{}, func()) {
	wake := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readers[wake] = true
	return wake, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.readers, wake)
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// maxBody is far above the size of an event.
const maxBody = 1 << 20

// sink accepts events. It decodes nothing while it receives, because that would take CPU time from the contestants.
type sink struct {
	server *http.Server
	url    string

	mu       sync.Mutex
	delay    time.Duration
	broken   bool
	requests []request
	refused  int
	last     time.Time
}

// request is an accepted request, unchanged.
type request struct {
	At   time.Time
	Type string
	Body []byte
}

// newSink listens on an address that is not loopback: the controller does not send to loopback addresses.
func newSink(ctx context.Context) (*sink, error) {
	ip, err := ownAddress()
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(ip.String(), "0"))
	if err != nil {
		return nil, fmt.Errorf("listening for events: %w", err)
	}
	s := &sink{url: "http://" + listener.Addr().String() + "/"}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		// If it ends early, no events arrive, and every scenario reports that.
		_ = s.server.Serve(listener)
	}()
	return s, nil
}

// ownAddress is the first address at which others could reach this machine.
func ownAddress() (netip.Addr, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("finding an address for the sink: %w", err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsGlobalUnicast() {
			return p.Addr(), nil
		}
	}
	return netip.Addr{}, errors.New("this machine has no address but loopback, where the controller sends nothing; " +
		"as root: ip link add bench0 type dummy && ip addr add 10.255.255.1/32 dev bench0 && ip link set bench0 up")
}

// ServeHTTP records the time first; then it reads the request, waits for the set delay, and responds.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		http.Error(w, "reading the body: "+err.Error(), http.StatusBadRequest)
		return
	}
	delay, broken := s.take(request{At: at, Type: r.Header.Get("Ce-Type"), Body: body})
	if delay > 0 {
		time.Sleep(delay)
	}
	if broken {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func (s *sink) take(r request) (delay time.Duration, broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = r.At
	if s.broken {
		s.refused++
		return 0, true
	}
	s.requests = append(s.requests, r)
	return s.delay, false
}

// behave sets the response delay, and deletes earlier requests.
func (s *sink) behave(delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay, s.broken, s.requests, s.refused, s.last = delay, false, nil, 0, time.Now()
}

// fail makes the sink answer everything with 503, or ends that.
func (s *sink) fail(broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = broken
}

// since returns the requests from the n-th on.
func (s *sink) since(n int) []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[min(n, len(s.requests)):]
}

// quiet is the time since the last request, accepted or rejected.
func (s *sink) quiet() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.last)
}

// counts returns the numbers of accepted and rejected requests since behave was called.
func (s *sink) counts() (taken, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests), s.refused
}

func (s *sink) close() error {
	if err := s.server.Close(); err != nil {
		return fmt.Errorf("closing the sink: %w", err)
	}
	return nil
}

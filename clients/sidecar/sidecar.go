// SPDX-License-Identifier: Apache-2.0

// Package sidecar makes a container that speaks HTTP a member of a cluster that shards requests by key.
package sidecar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/knative-cdevents/knative-cdevents/clients/sidecar/member"
	"github.com/knative-cdevents/knative-cdevents/clients/sidecar/proxy"
)

// Limits of the servers. The idle time is longer than that of the clients, so that no request meets a connection that
// closes.
const (
	headerWithin = 5 * time.Second
	idle         = 3 * time.Minute
	mostHeader   = 64 << 10
	// mostAdded is what a member adds to a request that it forwards: the key, and a few words.
	mostAdded    = 4 << 10
	mostManaging = 256
	mostDraining = 128
	// mostStrangers is how many connections to the port of members may be open over which no member has proven who it is.
	// A burst of requests opens as many as it has, so there must be room. mostGreeting is what may be read from each of
	// them, in bytes. A member sends about 2,100.
	mostStrangers = 4096
	mostGreeting  = 8 << 10
	probeWithin   = time.Second
	// askAgain is how often the container is asked whether it accepts connections.
	askAgain = 50 * time.Millisecond
)

// Sidecar is a member with its servers.
type Sidecar struct {
	config  Config
	log     *slog.Logger
	member  *member.Member
	proxy   *proxy.Proxy
	metrics *proxy.Metrics
	// answered: the application was seen to accept connections.
	answered atomic.Bool
}

// New returns a sidecar for a complete configuration.
func New(c Config, log *slog.Logger) (*Sidecar, error) {
	s := &Sidecar{config: c, log: log, metrics: proxy.NewMetrics(c.EntityType, c.Placement.Shards)}
	application := net.JoinHostPort(c.applicationHost(), strconv.Itoa(c.ApplicationPort))
	o := member.Options{
		Settings: c.Placement, Kind: c.EntityType, Address: net.JoinHostPort(c.PodIP, strconv.Itoa(c.PeerPort)),
		RequestTimeout: c.RequestTimeout, Together: c.Together, Strict: c.Strict, Log: log,
	}
	if c.Hooks {
		o.Hooks = newHooks(application, c.EntityType)
	}
	var err error
	if s.member, err = member.New(o); err != nil {
		return nil, fmt.Errorf("making a member: %w", err)
	}
	s.proxy = proxy.New(proxy.Options{
		Member: s.member, Key: c.Key, Shards: c.Placement.Shards, ShardOf: c.Placement.ShardOf, Application: application,
		Concurrency: c.Concurrency, MostOpen: c.MostOpen, MostRead: c.mostRead, Patience: c.Placement.Patience,
		RequestTimeout: c.RequestTimeout, Metrics: s.metrics, Log: log,
	})
	return s, nil
}

// Run serves until the context ends, and then leaves. The error says what must not go on.
func (s *Sidecar) Run(ctx context.Context) error {
	entry := server(duplex(s.proxy.Entry), s.log)
	entry.Protocols.SetUnencryptedHTTP2(true)
	peers := server(duplex(s.proxy.Peer), s.log)
	peers.TLSConfig = s.member.ServerTLS()
	peers.Protocols.SetHTTP2(true)
	peers.MaxHeaderBytes = http.DefaultMaxHeaderBytes + mostAdded // the former is the limit of queue-proxy
	management := server(s.Management(), s.log)
	management.ConnContext = withConn
	listen := func(host string, port int) (net.Listener, error) {
		at := net.JoinHostPort(host, strconv.Itoa(port))
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
		if err != nil {
			return nil, fmt.Errorf("listening at %s: %w", at, err)
		}
		return l, nil
	}
	var atEntry net.Listener
	var err error
	if !s.config.Embedded { // only queue-proxy is to reach the entry
		if atEntry, err = listen(s.config.applicationHost(), s.config.Port); err != nil {
			return err
		}
	}
	atPeers, err := listen(s.config.PodIP, s.config.PeerPort)
	if err != nil {
		return err
	}
	atManagement, err := listen(s.config.PodIP, s.config.ManagementPort)
	if err != nil {
		return err
	}
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	serve := func(f func() error) {
		go func() {
			if err := f(); !errors.Is(err, http.ErrServerClosed) {
				cancel(fmt.Errorf("serving: %w", err))
			}
		}()
	}
	if atEntry != nil {
		serve(func() error { return entry.Serve(atEntry) })
	}
	serve(func() error {
		// A member has no more connections here than it may have requests open.
		strangers := &newest{Listener: atPeers, most: mostStrangers, mostKept: math.MaxInt, mostRead: mostGreeting}
		return peers.Serve(greet(running, strangers, peers.TLSConfig))
	})
	serve(func() error {
		return management.Serve(&newest{Listener: atManagement, most: mostManaging, mostKept: mostDraining})
	})
	go func() {
		// Whoever registers gets shards, and their requests at once.
		for s.reach(running) != nil {
			select {
			case <-running.Done():
				return
			case <-time.After(askAgain):
			}
		}
		if err := s.member.Run(running); err != nil {
			cancel(err)
		}
	}()
	select {
	case <-running.Done():
	case <-ctx.Done():
		// The container has ended before, so little is open.
		if err = s.Leave(running); err == nil {
			closing, stop := context.WithTimeout(running, time.Second)
			defer stop()
			_ = entry.Shutdown(closing) // what is open after this is cut
			_ = peers.Shutdown(closing)
		}
	}
	_, _, _ = entry.Close(), peers.Close(), management.Close() // the process ends
	if why := context.Cause(running); why != nil {
		return why
	}
	return err
}

// Entry handles the requests that enter here, for a process with a server of its own: see Config.Embedded.
func (s *Sidecar) Entry() http.Handler { return http.HandlerFunc(s.proxy.Entry) }

// Leave returns when this member has no shard and no open request, or after the request time-out.
func (s *Sidecar) Leave(ctx context.Context) error {
	leaving, stop := context.WithTimeout(ctx, s.config.RequestTimeout)
	defer stop()
	if err := s.member.Leave(leaving); err != nil {
		return err //nolint:wrapcheck // the context's cause
	}
	// Others may still send requests here, until all have heard where the shards are.
	linger := time.NewTimer(s.config.linger)
	defer linger.Stop()
	select {
	case <-linger.C:
	case <-ctx.Done():
	}
	return nil
}

func server(h http.Handler, log *slog.Logger) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler: h, Protocols: protocols, ReadHeaderTimeout: headerWithin, IdleTimeout: idle, MaxHeaderBytes: mostHeader,
		DisableGeneralOptionsHandler: true, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 1000, SendPingTimeout: 30 * time.Second},
	}
}

// Management serves what the controller and kubelet ask for. Nothing in it changes anything.
func (s *Sidecar) Management() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /cluster/", s.member.Group().Handler())
	mux.Handle("GET /placement", s.member.Group().Handler())
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("GET /drain", s.drain)
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		held, err := s.member.Shards(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		s.metrics.Write(w, len(held), s.member.Group().Report().AgeSeconds)
	})
	return mux
}

// reach returns nil after the application has once accepted a connection.
func (s *Sidecar) reach(ctx context.Context) error {
	if s.answered.Load() {
		return nil
	}
	at := net.JoinHostPort(s.config.applicationHost(), strconv.Itoa(s.config.ApplicationPort))
	conn, err := (&net.Dialer{Timeout: probeWithin}).DialContext(ctx, "tcp", at)
	if err != nil {
		return fmt.Errorf("connecting to the container: %w", err)
	}
	_ = conn.Close() // it has served its purpose
	s.answered.Store(true)
	return nil
}

// ready says whether requests may enter here: this member is listed, and the application accepts connections.
func (s *Sidecar) ready(w http.ResponseWriter, r *http.Request) {
	err := s.member.Refuses()
	if err == nil && !s.member.Joined() {
		err = errors.New("the controller does not list this member")
	}
	if err == nil {
		err = s.reach(r.Context())
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// drain answers after the pod has ended its requests: first queue-proxy, which waits for those that enter, and then
// this member. Kubelet also asks when only the container restarts, and so may anybody. Then this member stays: whether
// it leaves is up to queue-proxy, which knows that the pod ends, and to the controller.
func (s *Sidecar) drain(w http.ResponseWriter, r *http.Request) {
	keep(r.Context())
	w.Header().Set("Connection", "close")
	ends, err := s.ends(r.Context())
	if ends {
		err = s.member.Leave(r.Context())
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// ends waits for queue-proxy to drain, and reports whether the pod ends.
func (s *Sidecar) ends(ctx context.Context) (bool, error) {
	begun := time.Now()
	err := waitForQueueProxy(ctx, s.config.DrainURL)
	if err == nil && time.Since(begun) >= s.config.drainsFor {
		return true, nil
	}
	// Otherwise the controller says whether the pod ends: queue-proxy may have failed, or learn it late.
	for !s.member.Leaving() {
		if ctx.Err() != nil || time.Since(begun) >= s.config.saidWithin {
			return false, err
		}
		time.Sleep(askAgain)
	}
	if err == nil {
		err = waitForQueueProxy(ctx, s.config.DrainURL)
	}
	if err != nil {
		s.log.Warn("queue-proxy did not drain; the requests of this member end all the same", "error", err)
	}
	return true, nil
}

func waitForQueueProxy(ctx context.Context, url string) error {
	if url == "" {
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("making a request to queue-proxy: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("waiting for queue-proxy to drain: %w", err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10)) // the answer is its end
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("waiting for queue-proxy to drain: %s answered %s", url, resp.Status)
	}
	return nil
}

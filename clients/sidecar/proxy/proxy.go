// SPDX-License-Identifier: Apache-2.0

// Package proxy is between queue-proxy and the container. It finds the key of each request, and has it handled by the
// member that holds the key's shard.
//
// Its invariants:
//   - A request reaches the container of a member only during a visit of its shard there, or if it has no key.
//   - A request that may have reached a container is never sent to another one, or again.
//   - A forwarded request is never forwarded again: a member that does not hold the shard answers so, before it has
//     read the body.
//   - No header that begins with Stateful- comes from a client, or reaches one.
//
//nolint:contextcheck // a visit does not end as its request does
package proxy

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/knative-cdevents/knative-cdevents/clients/placement"
	"github.com/knative-cdevents/knative-cdevents/clients/sidecar/key"
	"github.com/knative-cdevents/knative-cdevents/clients/sidecar/member"
)

// Headers that the application gets. An epoch grows each time that another member takes the shard. EntryHeader has the
// Revision where the request entered.
const (
	EntryHeader   = "Stateful-Entry-Revision"
	ShardHeader   = "Stateful-Shard"
	KeyHeader     = "Stateful-Key"
	VersionHeader = "Stateful-Plan-Version"
	EpochHeader   = "Stateful-Epoch"
)

// Headers between members.
const (
	// forwardHeader has the key, in base64, and the version of the plan by which the owner was chosen.
	forwardHeader = "Stateful-Forward"
	// expectHeader: the client expects 100 Continue. Each forwarded request with a body does.
	expectHeader = "Stateful-Expect"
	// elsewhereHeader has the version of a plan, and the member that has the shard instead.
	elsewhereHeader = "Stateful-Elsewhere"
)

// reserved are paths that only the sidecar itself asks the application for.
const reserved = "/.stateful/"

// Options of a Proxy.
type Options struct {
	Member *member.Member
	// Key finds the key of a request. Shards is the number of shards, and ShardOf the shard of a key.
	Key     key.Func
	Shards  int
	ShardOf func(key string, shards int) int
	// Application is the host and port of the container.
	Application string
	// Concurrency is how many requests the container handles at a time, wherever they entered. 0: any number.
	Concurrency int
	// MostOpen is how many requests may be open here, those that wait included. More get 503.
	MostOpen int
	// MostRead is how much of all bodies is in memory because their keys are there. More wait, and then get 503.
	MostRead int
	// Patience is how long a request waits for a shard that moves.
	Patience time.Duration
	Metrics  *Metrics
	Log      *slog.Logger
}

// Proxy serves requests that enter here, and those that other members forward.
type Proxy struct {
	o     Options
	open  chan struct{}
	slots chan struct{}
	// memory is for bodies that have a key, in bytes. It is given in the order in which it was asked for.
	memory *semaphore.Weighted
	proxy  *httputil.ReverseProxy

	toApplication, toMember pair
}

// pair is a transport for each version of HTTP.
type pair struct{ one, two http.RoundTripper }

func (p pair) of(r *http.Request) http.RoundTripper {
	if r.ProtoMajor == 2 {
		return p.two
	}
	return p.one
}

// New returns a proxy.
func New(o Options) *Proxy {
	p := &Proxy{o: o, open: make(chan struct{}, o.MostOpen), memory: semaphore.NewWeighted(int64(o.MostRead))}
	if o.Concurrency > 0 {
		p.slots = make(chan struct{}, o.Concurrency)
	}
	p.toApplication = pair{application(false), application(true)}
	if o.Member != nil {
		p.toMember = pair{o.Member.Transport(false), o.Member.Transport(true)}
	}
	buffers := &sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}
	// It flushes streams at once, and a body of known length as queue-proxy does: not before it fills a buffer or ends.
	p.proxy = &httputil.ReverseProxy{
		Rewrite: p.rewrite, Transport: p, BufferPool: pool{buffers}, ErrorHandler: p.problem,
		ModifyResponse: func(r *http.Response) error { strip(r.Header); strip(r.Trailer); return nil },
		ErrorLog:       slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	return p
}

type pool struct{ *sync.Pool }

// Get implements httputil.BufferPool.
func (p pool) Get() []byte { return *p.Pool.Get().(*[]byte) } //nolint:errcheck // nothing else is put there

// Put implements httputil.BufferPool.
func (p pool) Put(b []byte) { p.Pool.Put(&b) }

func application(http2 bool) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	return &http.Transport{
		Protocols: protocols, Proxy: nil, DisableCompression: true, MaxIdleConns: 1000, MaxIdleConnsPerHost: 100,
		ExpectContinueTimeout: time.Second, MaxResponseHeaderBytes: 1 << 20,
		// A request must not meet a connection that the container closes: some do after 2 s, and Node after 5 s.
		IdleConnTimeout: time.Second,
	}
}

// request is what is known of a request on its way.
type request struct {
	key     string
	shard   int // -1 without a key
	version int64
	// from is the Revision where it entered; forwarded: another member sent it.
	from      string
	forwarded bool
	// expects: the client expects 100 Continue.
	expects bool
	begun   time.Time
	visit   *member.Visit
	// writer, whole and body are of the request that came in, and cutter ends it in time.
	writer  *recorder
	whole   context.Context //nolint:containedctx // it is a part of the request
	body    io.Closer
	cutter  *cutter
	release func()
	handled bool
}

type requestKey struct{}

// Entry serves the requests of queue-proxy.
func (p *Proxy) Entry(w http.ResponseWriter, r *http.Request) {
	strip(r.Header)
	if isTunnel(r.Header["Upgrade"]) {
		r.Header.Del("Upgrade") // it is answered as if it had not asked for it
	}
	if r.Method == http.MethodConnect || r.URL.Opaque != "" || isReserved(r.URL.Path) {
		http.Error(w, "this method or path is not for clients", http.StatusNotFound)
		return
	}
	if !p.enter(w) {
		return
	}
	defer p.leave()
	found, done, err := p.find(w, r)
	defer done()
	switch {
	case errors.Is(err, errMemory):
		p.problem(w, r, &unavailableError{errMemory})
		return
	case errors.Is(err, os.ErrDeadlineExceeded):
		p.o.Metrics.refused("key")
		http.Error(w, err.Error(), http.StatusRequestTimeout)
		return
	case err != nil:
		p.o.Metrics.refused("key")
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s := &request{key: found, shard: -1, begun: time.Now()}
	if found != "" {
		s.shard = p.o.ShardOf(found, p.o.Shards)
	} else {
		p.o.Metrics.keyless.Add(1)
	}
	if p.o.Member != nil {
		s.from = p.o.Member.Revision("")
	}
	p.serve(w, r, s)
}

// isReserved reports whether an application may take a path for a reserved one. It may decode it, ignore case, merge
// slashes, take \ for /, and leave out what follows a semicolon in a segment, as servlets do.
func isReserved(name string) bool {
	segments := strings.Split(strings.ReplaceAll(strings.ToLower(name), "\\", "/"), "/")
	for i, s := range segments {
		segments[i], _, _ = strings.Cut(s, ";")
	}
	return strings.HasPrefix(path.Clean("/"+strings.Join(segments, "/"))+"/", reserved)
}

// isTunnel reports whether a client asks to go on in another form of HTTP. The requests in it would reach the container
// without a key, and with whatever headers and paths the client wants.
func isTunnel(upgrades []string) bool {
	for protocol := range strings.SplitSeq(strings.ToLower(strings.Join(upgrades, ",")), ",") {
		switch name, _, _ := strings.Cut(strings.TrimSpace(protocol), "/"); name {
		case "h2c", "h2", "http", "tls":
			return true
		}
	}
	return false
}

// Peer serves what other members send: messages, and forwarded requests.
func (p *Proxy) Peer(w http.ResponseWriter, r *http.Request) {
	from, known := p.o.Member.PeerOf(r.TLS)
	if !known { // it left the list since it has connected, and need not know
		p.problem(w, r, &unavailableError{errors.New("the member where it entered is not a part of the cluster any more")})
		return
	}
	if r.Header.Get(member.ProtocolHeader) != "" {
		p.o.Member.ServeProtocol(w, r, from)
		return
	}
	text, number, _ := strings.Cut(r.Header.Get(forwardHeader), " ")
	raw, err := base64.StdEncoding.DecodeString(text)
	version, versionErr := strconv.ParseInt(number, 10, 64)
	if err != nil || versionErr != nil || len(raw) == 0 || len(raw) > key.MaxLength {
		http.Error(w, "the request is not one that a member forwards", http.StatusBadRequest)
		return
	}
	expects := r.Header.Get(expectHeader) != ""
	if !expects {
		r.Header.Del("Expect")
	}
	strip(r.Header)
	if !p.enter(w) {
		return
	}
	defer p.leave()
	p.serve(w, r, &request{
		key: string(raw), shard: p.o.ShardOf(string(raw), p.o.Shards), version: version, from: from.Revision,
		forwarded: true, expects: expects, begun: time.Now(),
	})
}

// enter counts a request, or refuses one too many.
func (p *Proxy) enter(w http.ResponseWriter) bool {
	select {
	case p.open <- struct{}{}:
		return true
	default:
		p.o.Metrics.refused("open")
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests are open in this pod", http.StatusServiceUnavailable)
		return false
	}
}

func (p *Proxy) leave() { <-p.open }

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request, s *request) {
	if !s.forwarded {
		s.expects = r.Header.Get("Expect") != ""
	}
	strip(r.Trailer)
	seen := &recorder{ResponseWriter: w}
	s.writer, s.whole, s.body = seen, r.Context(), r.Body
	complete := false
	defer func() {
		if s.cutter != nil {
			s.cutter.end()
		}
		if s.release != nil {
			s.release()
		}
		if s.handled {
			p.o.Metrics.finished(s, seen, r, complete)
		}
		if s.visit != nil {
			s.visit.End()
		}
	}()
	p.proxy.ServeHTTP(seen, r.WithContext(context.WithValue(r.Context(), requestKey{}, s)))
	complete = true   // otherwise, it panicked
	strip(w.Header()) // trailers that were not announced; the server sends them after this
}

// rewrite passes everything on as it came.
func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme, r.Out.URL.Host = "http", p.o.Application
	r.Out.URL.RawQuery, r.Out.Host = r.In.URL.RawQuery, r.In.Host
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, there := r.In.Header[name]; there {
			r.Out.Header[name] = values
		}
	}
}

// RoundTrip implements http.RoundTripper: it finds out who handles a request, and has it handled.
func (p *Proxy) RoundTrip(r *http.Request) (*http.Response, error) {
	s := r.Context().Value(requestKey{}).(*request) //nolint:errcheck // serve has set it
	switch {
	case s.shard < 0:
		return p.handle(r, s)
	case s.forwarded:
		return p.handleForwarded(r, s)
	}
	return p.route(r, s)
}

// route handles a request here if this member holds its shard, or else forwards it to the one that does. While the
// shard moves, it waits.
func (p *Proxy) route(r *http.Request, s *request) (*http.Response, error) {
	const longest = 50 * time.Millisecond
	m := p.o.Member
	deadline := s.begun.Add(p.o.Patience)
	ctx, cancel := context.WithDeadlineCause(r.Context(), deadline, p.impatient())
	defer cancel()
	address, version := m.Locate(s.shard)
	var last error
	var unreached reach
	for pause := time.Millisecond; ctx.Err() == nil; pause = min(2*pause, longest) {
		var reply placement.Reply
		if err := m.Refuses(); err != nil {
			return nil, &unavailableError{err}
		}
		switch address {
		case "":
			last = errors.New("no member can have the shard")
		case m.Address():
			var err error
			var visit *member.Visit
			visit, reply, err = p.admit(ctx, r.Context(), s, version)
			if visit != nil {
				return p.handle(r, s)
			}
			last = err
		default:
			asked := time.Now()
			resp, elsewhere, err := p.forward(r, s, address, version, deadline)
			if err == nil && elsewhere == nil {
				m.Remember(s.shard, address)
				return resp, nil
			}
			var sent *sentError
			if errors.As(err, &sent) {
				return nil, err
			}
			if last = unreached.since(address, asked, err); elsewhere != nil {
				reply = *elsewhere
			}
		}
		m.Remember(s.shard, reply.Holder)
		if address = reply.Holder; address == "" {
			p.o.Metrics.waited.Add(1)
			address, version = m.Locate(s.shard)
		} else {
			version = max(version, reply.Version)
		}
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-wait.C:
		}
		wait.Stop()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err //nolint:wrapcheck // the client's
	}
	if last == nil {
		last = errors.New("its shard is on its way to another member")
	}
	return nil, &unavailableError{last}
}

// impatient says why a request does not wait for its shard any longer.
func (p *Proxy) impatient() error {
	return fmt.Errorf("no member was ready for its shard within %s", p.o.Patience)
}

// reach is a member that a request could not be sent to, and since when.
type reach struct {
	address string
	begun   time.Time
}

// since returns an error that says for how long a member could not be reached. Nil: it answered.
func (u *reach) since(address string, asked time.Time, err error) error {
	if err == nil {
		*u = reach{}
		return nil
	}
	if u.address != address {
		*u = reach{address, asked}
	}
	return fmt.Errorf("member %s, which should have its shard, could not be reached for %s: %w", address,
		time.Since(u.begun).Round(time.Millisecond), err)
}

// admit begins a visit that ends with the request, and waits for it as long as ctx.
func (p *Proxy) admit(ctx, whole context.Context, s *request, version int64) (*member.Visit, placement.Reply, error) {
	// The visit must outlast the wait for it.
	visiting, cancel := context.WithCancelCause(whole)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	visit, reply, err := p.o.Member.Admit(visiting, s.shard, version)
	if visit == nil || !stop() {
		stop()
		cancel(nil)
		if visit != nil {
			visit.End()
		}
		return nil, reply, err //nolint:wrapcheck // it is one of this module
	}
	s.visit = visit
	return visit, reply, nil
}

// handleForwarded handles a request that another member has sent here, or says that this is not the place.
func (p *Proxy) handleForwarded(r *http.Request, s *request) (*http.Response, error) {
	ctx, cancel := context.WithDeadlineCause(r.Context(), s.begun.Add(p.o.Patience), p.impatient())
	defer cancel()
	visit, reply, err := p.admit(ctx, r.Context(), s, s.version)
	if visit != nil {
		return p.handle(r, s)
	}
	if err := r.Context().Err(); err != nil {
		return nil, err //nolint:wrapcheck // the caller's
	}
	if err != nil {
		return nil, &unavailableError{err}
	}
	return nil, &elsewhereError{reply}
}

// handle sends a request to the container.
func (p *Proxy) handle(r *http.Request, s *request) (*http.Response, error) {
	ctx := r.Context()
	out := r
	if s.from != "" {
		out.Header.Set(EntryHeader, s.from)
	}
	if s.visit != nil {
		ctx = s.visit.Context()
		s.cutter = watch(ctx, s.whole, s.writer)
		out = r.WithContext(ctx)
		out.Header.Set(ShardHeader, strconv.Itoa(s.shard))
		out.Header.Set(KeyHeader, url.PathEscape(s.key))
		out.Header.Set(VersionHeader, strconv.FormatInt(s.visit.Version, 10))
		out.Header.Set(EpochHeader, strconv.FormatInt(s.visit.Epoch, 10))
	}
	if p.slots != nil {
		select {
		case p.slots <- struct{}{}:
			s.release = func() { <-p.slots; p.o.Metrics.handling.Add(-1) }
		case <-ctx.Done():
			return nil, context.Cause(ctx) //nolint:wrapcheck // the client's, or the visit's
		}
	} else {
		s.release = func() { p.o.Metrics.handling.Add(-1) }
	}
	if s.forwarded && !s.expects && r.Body != nil && r.Body != http.NoBody {
		// Otherwise, a container that answers before it reads gets no body: the member that waits for 100 takes the
		// answer for a refusal.
		s.writer.ResponseWriter.WriteHeader(http.StatusContinue)
	}
	p.o.Metrics.handling.Add(1)
	p.o.Metrics.started.Add(1)
	s.handled = true
	if r.ProtoMajor == 2 && out.Body != nil {
		out.Body = &breakable{out.Body, s.body}
	}
	resp, err := p.toApplication.of(r).RoundTrip(once(out))
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		conn := resp.Body // the transport does not look at the context any more
		context.AfterFunc(ctx, func() { _ = conn.Close() })
	}
	return resp, err //nolint:wrapcheck // problem shows it
}

// unavailableError: the request has reached no container.
type unavailableError struct{ error }

// elsewhereError: another member has the shard.
type elsewhereError struct{ reply placement.Reply }

func (*elsewhereError) Error() string { return "another member has the shard" }

// sentError: the request may have reached a container.
type sentError struct{ error }

// problem answers a request that has no answer from a container.
func (p *Proxy) problem(w http.ResponseWriter, r *http.Request, err error) {
	var unavailable *unavailableError
	var elsewhere *elsewhereError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &elsewhere):
		w.Header().Set(elsewhereHeader, strconv.FormatInt(elsewhere.reply.Version, 10)+" "+elsewhere.reply.Holder)
		w.WriteHeader(http.StatusMisdirectedRequest)
	case errors.As(err, &unavailable):
		p.o.Metrics.refused("unavailable")
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the request was not handled; send it again after the time in Retry-After: "+unavailable.Error(),
			http.StatusServiceUnavailable)
	case errors.As(err, &tooLarge):
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
	default:
		if r.Context().Err() == nil {
			p.o.Log.Warn("a request failed", "error", err)
		}
		http.Error(w, "no answer from the container", http.StatusBadGateway)
	}
}

// strip removes headers and trailers that only the sidecar may set.
func strip(h http.Header) {
	for name := range h {
		if key.Reserved(strings.TrimPrefix(name, http.TrailerPrefix)) {
			delete(h, name)
		}
	}
}

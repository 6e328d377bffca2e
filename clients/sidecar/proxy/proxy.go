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
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

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
	// MostOpen is how many requests may be open here, those that wait included. More get 503. One with large headers
	// counts as several.
	MostOpen int
	// MostRead is how much of all bodies is in memory because their keys are there. More wait, and then get 503.
	MostRead int
	// Patience is how long a request waits for a shard that moves.
	Patience time.Duration
	// RequestTimeout is how long a request may take until queue-proxy ends it.
	RequestTimeout time.Duration
	Metrics        *Metrics
	Log            *slog.Logger
}

// Proxy serves requests that enter here, and those that other members forward.
type Proxy struct {
	o     Options
	open  *semaphore.Weighted
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
	p := &Proxy{o: o, open: semaphore.NewWeighted(int64(o.MostOpen)), memory: semaphore.NewWeighted(int64(o.MostRead))}
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

// enter counts a request, or refuses one too many. The caller must call leave, if there is one.
func (p *Proxy) enter(w http.ResponseWriter, r *http.Request) (leave func()) {
	takes := min(1+headerMemory(r.Header)/headerShare, int64(p.o.MostOpen))
	if p.open.TryAcquire(takes) {
		return func() { p.open.Release(takes) }
	}
	p.o.Metrics.refused("open")
	w.Header().Set("Retry-After", "1")
	http.Error(w, "too many requests are open in this pod", http.StatusServiceUnavailable)
	return nil
}

// headerShare is how much memory for headers a request may need that counts as one. All else that an open request
// needs is about twice as much.
const headerShare = 16 << 10

// headerMemory returns about how much memory headers need. Those with no value need a lot, too: there are a few copies
// of the table.
func headerMemory(h http.Header) (n int64) {
	const each = 250
	for name, values := range h {
		for _, v := range values {
			n += int64(each + len(name) + len(v))
		}
	}
	return n
}

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
			p.o.Metrics.finished(s, seen, r, complete, p.o.RequestTimeout)
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

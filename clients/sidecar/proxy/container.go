// SPDX-License-Identifier: Apache-2.0

//nolint:contextcheck // a visit does not end as its request does
package proxy

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

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

// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/knative-cdevents/knative-cdevents/clients/placement"
)

// forward sends a request to the member that probably holds its shard. It returns an answer, or where the shard is
// instead. A *sentError says that the request may have been handled; after other errors, it was not.
func (p *Proxy) forward(r *http.Request, s *request, address string, version int64, deadline time.Time) (
	*http.Response, *placement.Reply, error,
) {
	// The answer ends the wait for the member, not the context: what follows may take as long as it must.
	ctx, cancelFor := context.WithCancelCause(r.Context())
	cancel := func() { cancelFor(nil) }
	tracked := &tracker{}
	out := r.Clone(httptrace.WithClientTrace(ctx, tracked.trace()))
	out.URL.Scheme, out.URL.Host = "https", address
	out.Header.Set(forwardHeader, base64.StdEncoding.EncodeToString([]byte(s.key))+" "+strconv.FormatInt(version, 10))
	if s.expects {
		out.Header.Set(expectHeader, "1")
	}
	if r.Body != nil && r.Body != http.NoBody {
		// The member reads the body only if it holds the shard, so that another one can have it.
		out.Header.Set("Expect", "100-continue")
		if tracked.body = r.Body; r.ProtoMajor == 2 {
			tracked.body = &breakable{r.Body, s.body}
		}
		out.Body = tracked
	}
	impatient := time.AfterFunc(time.Until(deadline), func() {
		if !tracked.written() {
			cancelFor(errors.New("connecting to it takes too long"))
		}
	})
	resp, err := p.toMember.of(r).RoundTrip(once(out))
	impatient.Stop()
	if why := context.Cause(ctx); why != nil && errors.Is(err, context.Canceled) {
		err = why
	}
	if err != nil {
		cancel()
		if tracked.detach() {
			return nil, nil, &sentError{err}
		}
		return nil, nil, err //nolint:wrapcheck // it says which member
	}
	if where := resp.Header.Get(elsewhereHeader); where != "" && resp.StatusCode == http.StatusMisdirectedRequest {
		_ = resp.Body.Close() // there is nothing in it
		cancel()
		tracked.detach()
		if tracked.read() {
			return nil, nil, &sentError{errors.New("a member refused a request after it had read some of the body")}
		}
		number, holder, _ := strings.Cut(where, " ")
		newest, err := strconv.ParseInt(number, 10, 64)
		if err != nil || holder == address {
			holder = ""
		}
		return nil, &placement.Reply{Holder: holder, Version: newest}, nil
	}
	context.AfterFunc(r.Context(), cancel)
	p.o.Metrics.forwarded.Add(1)
	return resp, nil, nil
}

// tracker knows how much of a request was sent. It is the view of the body that a transport has.
type tracker struct {
	mu   sync.Mutex
	body io.ReadCloser
	// headers: some of the request may have been sent. begun: some of the body was read. detached: no more is.
	headers, begun, detached bool
}

func (t *tracker) trace() *httptrace.ClientTrace {
	// Over HTTP/2, WroteHeaders comes after the headers were sent, and they may be sent after the request was given up.
	return &httptrace.ClientTrace{WroteHeaderField: func(string, []string) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.headers = true
	}}
}

func (t *tracker) written() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.headers
}

func (t *tracker) read() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.begun
}

// detach ends what an attempt reads, and returns whether the request may have been handled.
func (t *tracker) detach() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.detached = true
	return t.headers
}

// Read implements io.Reader.
func (t *tracker) Read(b []byte) (int, error) {
	t.mu.Lock()
	if t.detached {
		t.mu.Unlock()
		return 0, errors.New("this attempt has ended")
	}
	t.begun = true
	t.mu.Unlock()
	return t.body.Read(b) //nolint:wrapcheck // a reader's contract
}

// Close implements io.Closer. A body of which nothing was read can still go to another member, and this attempt must
// not begin to read it: a transport may close before it first reads.
func (t *tracker) Close() error {
	t.mu.Lock()
	body, is := t.body.(*breakable)
	is, t.detached = is && t.begun, true
	t.mu.Unlock()
	if is {
		return body.Close()
	}
	return nil // the server closes the body itself
}

// breakable is the body of a request over HTTP/2. If the container has answered before the client has ended its part,
// as a call of gRPC that fails does, the transport closes the body, and waits for whoever reads it. The close of
// httputil.ReverseProxy does nothing, so the answer would wait for the client, and the client for the answer. Over
// HTTP/1.1, a close itself may wait for the client.
type breakable struct {
	io.Reader
	io.Closer
}

// once keeps a transport from sending a request again after it may have been handled. The transport does that with
// requests that have no body: over HTTP/1.1 if their method or a header, be it empty, says that it does no harm, and
// over HTTP/2 if the stream was reset with a certain code.
func once(r *http.Request) *http.Request {
	r.GetBody = nil
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		// With a body as below, requests of other methods would be sent in chunks. The transport knows this spelling only.
		if values, there := r.Header[name]; there {
			delete(r.Header, name)
			r.Header[strings.ToLower(name)] = values
		}
	}
	replays := r.ProtoMajor == 2
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		replays = true
	}
	if replays && (r.Body == nil || r.Body == http.NoBody) {
		r.Body = io.NopCloser(nothing{})
	}
	return r
}

// nothing is an empty body that a transport does not know to be empty.
type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, io.EOF }

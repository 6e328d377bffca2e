// SPDX-License-Identifier: Apache-2.0

package scrape

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/knative-cdevents/knative-cdevents/canary/scrape/limits"
)

// accept prefers OpenMetrics, as Prometheus does.
const accept = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.9,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"

// keepAlive is longer than any interval for which a connection is worth keeping.
const keepAlive = 2 * time.Minute

// Client scrapes targets. It is safe for concurrent use.
type Client struct {
	http  *http.Client
	now   func() time.Time
	check func(Target) error
	// bodies holds the buffers of finished readings.
	bodies sync.Pool
}

// largestKept limits the size of buffers that are kept for the next reading.
const largestKept = smallBody

// NewClient returns a client that keeps at most one connection per pod, to at most idle pods.
func NewClient(idle int) *Client {
	dialer := &net.Dialer{KeepAlive: 30 * time.Second}
	return &Client{
		now:   time.Now,
		check: Target.Check,
		http: &http.Client{
			// A pod's redirect would choose the host that this process connects to.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				Proxy:                  nil, // a pod is reached directly or not at all
				DialContext:            dialer.DialContext,
				MaxIdleConns:           idle,
				MaxIdleConnsPerHost:    1,
				IdleConnTimeout:        keepAlive,
				MaxResponseHeaderBytes: 64 << 10,
			},
		},
	}
}

// Read scrapes one target with its Memory. The Reading holds any failure.
func (c *Client) Read(ctx context.Context, t Target, l limits.Reading, m *Memory) Reading {
	out, began := Reading{Target: t}, c.now()
	out.Exposition, out.Err = c.read(ctx, t, l, m)
	out.At = c.now()
	out.Took = out.At.Sub(began)
	return out
}

func (c *Client) read(ctx context.Context, t Target, l limits.Reading, m *Memory) (Exposition, error) {
	if err := c.check(t); err != nil {
		return Exposition{}, &ReadError{Class: BadTarget, Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	req, err := request(ctx, t)
	if err != nil {
		return Exposition{}, &ReadError{Class: BadTarget, Err: err}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return Exposition{}, unread(ctx, err)
	}
	defer func() {
		// Drain a short rest so the connection can be reused. The result is already known.
		_, _ = io.CopyN(io.Discard, resp.Body, 16<<10)
		_ = resp.Body.Close()
	}()
	if resp.StatusCode != http.StatusOK {
		return Exposition{}, &ReadError{
			Class: Status, Code: resp.StatusCode,
			Err: fmt.Errorf("it answered %s, not 200", resp.Status),
		}
	}
	buffer, ok := c.bodies.Get().(*bytes.Buffer)
	if !ok {
		buffer = &bytes.Buffer{}
	}
	defer func() {
		if buffer.Cap() <= largestKept {
			buffer.Reset()
			c.bodies.Put(buffer)
		}
	}()
	_, err = buffer.ReadFrom(io.LimitReader(resp.Body, min(smallBody, l.Body+1)))
	if err == nil && buffer.Len() == smallBody && l.Body >= smallBody {
		done, rerr := m.claims.room(ctx, l.Body)
		if rerr != nil {
			return Exposition{}, &ReadError{
				Class: Timeout,
				Err: fmt.Errorf("it has more than %d bytes, and too many responses of this size are being read; export less: %w",
					smallBody, rerr),
			}
		}
		defer done()
		slow := time.AfterFunc(largeWithin, cancel)
		_, err = buffer.ReadFrom(io.LimitReader(resp.Body, l.Body+1-smallBody))
		if !slow.Stop() && err != nil {
			return Exposition{}, &ReadError{
				Class: Timeout,
				Err:   fmt.Errorf("reading more than %d bytes took longer than %s", smallBody, largeWithin),
			}
		}
	}
	body := buffer.Bytes()
	switch {
	case err != nil:
		return Exposition{}, unread(ctx, err)
	case int64(len(body)) > l.Body:
		return Exposition{}, &ReadError{
			Class: TooLarge,
			Err:   fmt.Errorf("the exposition is longer than %d bytes; export less, or raise scrape-body-limit", l.Body),
		}
	}
	return parseSafely(body, resp.Header.Get("Content-Type"), l, m)
}

// parseSafely turns a panic, which is a bug, into an error of this target: what a pod exports must not end the process.
func parseSafely(body []byte, contentType string, l limits.Reading, m *Memory) (out Exposition, err error) {
	defer func() {
		if p := recover(); p != nil {
			out = Exposition{}
			err = &ReadError{Class: Unparsable, Err: fmt.Errorf("parsing it panicked, which is a bug: %v", p)}
		}
	}()
	return parse(body, contentType, l, m)
}

// request returns the request for a target. It takes only path and query from what a user wrote.
func request(ctx context.Context, t Target) (*http.Request, error) {
	at, err := url.ParseRequestURI(t.Path)
	if err != nil {
		return nil, fmt.Errorf("the path %q is not valid: %w", t.Path, err)
	}
	u := url.URL{Scheme: "http", Host: t.Address.String(), Path: at.Path, RawPath: at.RawPath, RawQuery: at.RawQuery}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", "knative-cdevents")
	return req, nil
}

// parse parses a body and classifies the error.
func parse(body []byte, contentType string, l limits.Reading, m *Memory) (Exposition, error) {
	if strings.HasPrefix(contentType, "text/html") {
		return Exposition{}, &ReadError{
			Class: Unparsable,
			Err:   fmt.Errorf("the content type is %s; that is a web page, not metrics", contentType),
		}
	}
	e, err := m.Parse(body, contentType, l.Series)
	switch {
	case errors.Is(err, errSeries):
		return Exposition{}, &ReadError{Class: TooManySeries, Err: err}
	case err != nil:
		return Exposition{}, &ReadError{Class: Unparsable, Err: err}
	}
	return e, nil
}

func unread(ctx context.Context, err error) error {
	var timeout net.Error
	class := Unreachable
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		class = Timeout
	case errors.Is(err, syscall.ECONNREFUSED):
		class = Refused
	}
	return &ReadError{Class: class, Err: err}
}

// SPDX-License-Identifier: Apache-2.0

package doorbell

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Access is how a server is reached. Both files may be replaced while the doorbell runs.
type Access struct {
	// URL is where the server is.
	URL string
	// CAFile has the certificates that the server is trusted by; empty: the system's.
	CAFile string
	// TokenFile has a token for the server; empty: none is sent.
	TokenFile string
}

const (
	// dialWithin limits connecting, handshakeWithin the TLS handshake.
	dialWithin      = 10 * time.Second
	handshakeWithin = 10 * time.Second
	// A connection on which nothing arrives is checked after pingAfter, and closed pingWithin later.
	pingAfter  = 30 * time.Second
	pingWithin = 15 * time.Second
	// mostUnread is how much of an answer may have arrived before it is read.
	mostUnread = 64 << 10
	// trustFor is how long the file with certificates is not read again.
	trustFor = time.Minute
	// mostMessage limits what is read of an error.
	mostMessage = 4 << 10
	// longestRetryAfter, in seconds, is what counts of a longer one.
	longestRetryAfter = 24 * 60 * 60
)

// client sends requests to one server.
type client struct {
	Access
	conns int

	mu      sync.Mutex
	checked time.Time
	ca      []byte
	current *http.Client
}

// newClient returns a client with at most so many connections.
func newClient(access Access, conns int) (*client, error) {
	access.URL = strings.TrimSuffix(access.URL, "/")
	c := &client{Access: access, conns: conns}
	_, err := c.connect(time.Now())
	return c, err
}

// connect returns the client for requests, a new one if the trusted certificates have changed. If they cannot be
// read any more, those that were read last stay trusted.
func (c *client) connect(now time.Time) (*http.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil && now.Sub(c.checked) < trustFor {
		return c.current, nil
	}
	c.checked = now
	var ca []byte
	if c.CAFile != "" {
		var err error
		if ca, err = os.ReadFile(c.CAFile); err != nil && c.current == nil {
			return nil, fmt.Errorf("reading the certificates that %s is trusted by: %w", c.URL, err)
		}
	}
	if c.current != nil && (len(ca) == 0 || bytes.Equal(ca, c.ca)) {
		return c.current, nil
	}
	var pool *x509.CertPool // nil: the system's, which take a MiB
	if c.CAFile != "" {
		pool = x509.NewCertPool()
		if !pool.AppendCertsFromPEM(ca) {
			if c.current != nil {
				return c.current, nil
			}
			return nil, fmt.Errorf("%s contains no certificate; it must contain those that %s is trusted by, as PEM",
				c.CAFile, c.URL)
		}
	}
	if c.current != nil {
		c.current.CloseIdleConnections()
	}
	c.ca, c.current = ca, &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: dialWithin}).DialContext,
			TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool},
			TLSHandshakeTimeout: handshakeWithin,
			ForceAttemptHTTP2:   true,
			HTTP2: &http.HTTP2Config{
				SendPingTimeout: pingAfter, PingTimeout: pingWithin,
				// While too many keys wait, watches are not read. What arrives is in memory then, so it is limited, but not for
				// all together: they must not stop the other requests.
				MaxReceiveBufferPerStream: mostUnread, MaxReceiveBufferPerConnection: 32 * mostUnread,
			},
			DisableCompression:  true, // it takes more memory than it saves
			MaxConnsPerHost:     c.conns,
			MaxIdleConnsPerHost: c.conns,
			IdleConnTimeout:     time.Minute,
		},
		// A redirect must not take the token to another server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c.current, nil
}

// do sends a request with the token as it is now.
func (c *client) do(r *http.Request) (*http.Response, error) {
	if c.TokenFile != "" {
		token, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("reading the token for %s: %w", c.URL, err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	r.Header.Set("User-Agent", "knative-cdevents-doorbell")
	conn, err := c.connect(time.Now())
	if err != nil {
		return nil, err
	}
	return conn.Do(r)
}

// StatusError is an answer other than 2xx.
type StatusError struct {
	Code int
	// Message is the beginning of the answer.
	Message string
	// RetryAfter is what the server asks for.
	RetryAfter time.Duration
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("the answer is %d %s", e.Code, http.StatusText(e.Code))
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// statusOf returns the error of an answer, nil if it is 2xx.
func statusOf(r *http.Response, now time.Time) *StatusError {
	if r.StatusCode/100 == 2 {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(r.Body, mostMessage)) // the code says enough
	e := &StatusError{Code: r.StatusCode, Message: strings.TrimSpace(string(text))}
	if location := r.Header.Get("Location"); location != "" && r.StatusCode/100 == 3 {
		e.Message = "redirects are not followed, and this one leads to " + location
	}
	after := r.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(after); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(min(seconds, longestRetryAfter)) * time.Second
	} else if at, err := http.ParseTime(after); err == nil {
		e.RetryAfter = max(0, at.Sub(now))
	}
	return e
}

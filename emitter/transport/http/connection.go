// SPDX-License-Identifier: Apache-2.0

package http

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

const (
	// workers is how many attempts at one sink may be under way. With fewer idle
	// connections, nearly every attempt would open a new one.
	workers = 32

	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 90 * time.Second
	keepAlive        = 30 * time.Second
	// pingAfter is how long an HTTP/2 connection may be silent before a ping, which must be
	// answered within pingTimeout. Their sum is less than the default timeout.
	pingAfter   = 15 * time.Second
	pingTimeout = 10 * time.Second
	// headerLimit limits the headers of an answer; finish limits its body.
	headerLimit = 64 << 10
)

// newConnections returns those to one target. They are used without http.Client, which follows redirects, or at
// least parses them and quotes them in its errors.
func newConnections(caCerts string, access transport.Access, certificate *tls.Certificate, pings http.HTTP2Config,
) (*http.Transport, error) {
	trust, err := access.Trust.TLS(caCerts)
	if err != nil {
		return nil, err
	}
	if certificate != nil {
		trust.Certificates = []tls.Certificate{*certificate}
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive, ControlContext: access.Addresses.Control}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        trust,
		TLSHandshakeTimeout:    handshakeTimeout,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &pings,
		MaxIdleConnsPerHost:    workers,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: headerLimit,
		// Only the status of an answer is used, so its body need not be unpacked.
		DisableCompression: true,
	}, nil
}

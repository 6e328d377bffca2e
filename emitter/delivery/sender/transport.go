// SPDX-License-Identifier: Apache-2.0

package sender

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"knative.dev/eventing/pkg/eventingtls"
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

// newTransport returns a transport for one target. It is used without http.Client, which
// follows redirects, or at least parses them and quotes them in its errors.
func newTransport(caCerts string, trusted *bundles, certificate *tls.Certificate, addresses Addresses, pings http.HTTP2Config) (*http.Transport, error) {
	trust, err := eventingtls.GetTLSClientConfig(eventingtls.ClientConfig{CACerts: &caCerts, TrustBundleConfigMapLister: trusted.lister()})
	if err != nil {
		return nil, fmt.Errorf("reading the sink's CA certificates (spec.sink.CACerts, or status.address.CACerts of the sink): %w", err)
	}
	if certificate != nil {
		trust.Certificates = []tls.Certificate{*certificate}
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive, ControlContext: addresses.control}
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

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
	// workers is how many attempts may be under way to one sink; with fewer idle
	// connections than that, nearly every attempt would open a new one.
	workers = 32

	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 90 * time.Second
	keepAlive        = 30 * time.Second
	// pingAfter is how long an HTTP/2 connection may be silent before it has to
	// show that it lives, within pingTimeout. Together they are shorter than the
	// default time of an attempt.
	pingAfter   = 15 * time.Second
	pingTimeout = 10 * time.Second
	// headerLimit bounds the headers of an answer; its body is bounded in finish.
	headerLimit = 64 << 10
)

// newTransport makes what requests are sent through. There is no http.Client
// around it: that would follow redirects, or at the least parse where they lead
// and fail with an error that quotes it.
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
		// What an answer says beyond its status is thrown away, so it need not
		// be unpacked either.
		DisableCompression: true,
	}, nil
}

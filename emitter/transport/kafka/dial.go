// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/hosts"
)

const (
	dialTimeout = 10 * time.Second
	keepAlive   = 30 * time.Second
)

// dialer opens connections to bootstrap servers, and to the brokers that these name.
type dialer struct {
	addresses transport.Addresses
	values    credentials.Values
	// tls is nil without TLS.
	tls *tls.Config

	mu sync.Mutex
	// failed is the last broker that was not reached, and why.
	failed  string
	failure error
}

// dial is called by the client for each connection. The credentials are sent over it afterwards.
func (d *dialer) dial(ctx context.Context, network, at string) (net.Conn, error) {
	conn, err := d.connect(ctx, network, at)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil && d.failed == at {
		d.failed, d.failure = "", nil
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		d.failed, d.failure = at, err
	}
	return conn, err
}

// lastFailure returns why a broker was not reached the last time, nil if all were. The client tries again, and does
// not say what it waits for.
func (d *dialer) lastFailure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failure
}

func (d *dialer) connect(ctx context.Context, network, at string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	host, err := d.permit(at)
	if err != nil {
		return nil, err
	}
	plain := &net.Dialer{KeepAlive: keepAlive, ControlContext: d.addresses.Control}
	conn, err := plain.DialContext(ctx, network, at)
	var refused *transport.RefusedError
	if errors.As(err, &refused) {
		err = refused // the client would try again after an error of package net
	}
	if err != nil {
		return nil, &dialError{err}
	}
	if d.tls == nil {
		return conn, nil
	}
	config := d.tls.Clone()
	config.ServerName = host.String()
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // the handshake's error says more
		return nil, &dialError{err}
	}
	return secure, nil
}

// permit checks a broker's host. A broker may name any host as that of another one.
func (d *dialer) permit(at string) (hosts.Host, error) {
	name, _, err := net.SplitHostPort(at)
	if err != nil {
		return hosts.Host{}, &dialError{fmt.Errorf("a broker has an address without a port: %w", err)}
	}
	host, err := hosts.Of(name)
	if err != nil {
		return host, &forbiddenError{fmt.Errorf("a broker's host %w", err)}
	}
	if err := d.addresses.Permit(host); err != nil {
		return host, &forbiddenError{err}
	}
	if !d.values.Permits(host) {
		return host, &forbiddenError{fmt.Errorf("the brokers name host %q, to which the Secret in spec.auth may not be "+
			"sent; add it to the Secret's annotation knative-cdevents.dev/sink-hosts", host)}
	}
	return host, nil
}

// dialError says that a broker was not reached.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// forbiddenError says that the controller may not send to a broker.
type forbiddenError struct{ error }

func (e *forbiddenError) Unwrap() error { return e.error }

// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"net/url"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
)

// Credentials finds the credentials that sinks are sent.
type Credentials interface {
	// For returns the credentials for the sink at a URL.
	For(ctx context.Context, refs credentials.References, sink *url.URL) (credentials.Values, error)
	// Rejected has credentials read again that a sink has rejected.
	Rejected(refs credentials.References, values credentials.Values)
}

// Trust holds the certificate authorities that are trusted besides those of the system and of each sink. trust.Trust
// implements it: what only reads the addresses of sinks must not depend on the API server's clients.
type Trust interface {
	// TLS returns the configuration of a client that also trusts the authorities of a sink, in PEM.
	TLS(caCerts string) (*tls.Config, error)
	// Generation changes whenever the trusted authorities do. A connection from before is not used again.
	Generation() int64
	// OnChange has f called after each change.
	OnChange(f func())
}

// Access is what all transports share. All fields are required.
type Access struct {
	// Addresses says where they may connect.
	Addresses Addresses
	// Credentials are those that sources name.
	Credentials Credentials
	// Trust says whose certificates they accept.
	Trust Trust
}

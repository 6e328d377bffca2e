// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
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

// Access is what all transports share. All fields are required.
type Access struct {
	// Addresses says where they may connect.
	Addresses Addresses
	// Credentials are those that sources name.
	Credentials Credentials
	// Trust holds the certificate authorities that they trust besides those of each sink.
	Trust *Trust
}

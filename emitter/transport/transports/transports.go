// SPDX-License-Identifier: Apache-2.0

// Package transports lists the transports that sinks are reached by.
//
// Its invariant: what the webhook admits and what the controller sends by are the same list.
package transports

import (
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/http"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/kafka"
)

// Schemes are those that the URI of a sink may have.
var Schemes = transport.Join(http.Schemes, kafka.Schemes)

// New returns all transports, with the access that they share.
func New(access transport.Access) *transport.Registry {
	all := &transport.Registry{}
	all.Register(http.Schemes, http.NewClients(access))
	all.Register(kafka.Schemes, kafka.NewClients(access))
	return all
}

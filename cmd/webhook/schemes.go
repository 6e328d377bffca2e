// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/http"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/kafka"
)

// schemes are those that the URIs of sinks may have: those of the controller's transports.
var schemes = transport.Join(http.Schemes, kafka.Schemes)

// SPDX-License-Identifier: Apache-2.0

package http

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

// explain says why there is no answer and what to do about it. It wraps the error.
func explain(err error, timeout time.Duration) error {
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) || errors.Is(err, http.ErrSchemeMismatch) {
		return fmt.Errorf("the sink does not speak TLS on this port; use http://, or another port: %w", err)
	}
	return transport.Explain(err, timeout)
}

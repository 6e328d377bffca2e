// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/knative-cdevents/knative-cdevents/clients/placement"
)

// unavailableError: the request has reached no container.
type unavailableError struct{ error }

// elsewhereError: another member has the shard.
type elsewhereError struct{ reply placement.Reply }

func (*elsewhereError) Error() string { return "another member has the shard" }

// sentError: the request may have reached a container.
type sentError struct{ error }

// problem answers a request that has no answer from a container.
func (p *Proxy) problem(w http.ResponseWriter, r *http.Request, err error) {
	var unavailable *unavailableError
	var elsewhere *elsewhereError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &elsewhere):
		w.Header().Set(elsewhereHeader, strconv.FormatInt(elsewhere.reply.Version, 10)+" "+elsewhere.reply.Holder)
		w.WriteHeader(http.StatusMisdirectedRequest)
	case errors.As(err, &unavailable):
		p.o.Metrics.refused("unavailable")
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the request was not handled; send it again after the time in Retry-After: "+unavailable.Error(),
			http.StatusServiceUnavailable)
	case errors.As(err, &tooLarge):
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
	default:
		if r.Context().Err() == nil {
			p.o.Log.Warn("a request failed", "error", err)
		}
		http.Error(w, "no answer from the container", http.StatusBadGateway)
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"regexp"
)

// names matches valid names of carts and requests.
var names = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// requester sends a request to its shard, on whichever member it is.
type requester interface {
	request(ask) answer
	started() bool
}

// newFront is the entry for requests: GET or POST /cart/{id}. Header X-Request-Id decides a request's fate.
func newFront(conf config, to requester) http.Handler {
	mux := http.NewServeMux()
	cart := func(w http.ResponseWriter, r *http.Request) {
		a := ask{
			Request: r.Header.Get("X-Request-Id"), Cart: r.PathValue("id"),
			Shard: shardOf(r.PathValue("id"), conf.Shards), Entered: conf.Self,
		}
		if a.Request == "" {
			a.Request = rand.Text()
		}
		if !names.MatchString(a.Cart) || !names.MatchString(a.Request) {
			http.Error(w, "the cart and X-Request-Id must be up to 64 of A-Z a-z 0-9 . _ -", http.StatusBadRequest)
			return
		}
		got := to.request(a)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(map[string]int{ok: http.StatusOK, failed: http.StatusInternalServerError, timedOut: http.StatusGatewayTimeout}[got.Outcome])
		_ = json.NewEncoder(w).Encode(got) // ignore a client that has disconnected
	}
	mux.HandleFunc("GET /cart/{id}", cart)
	mux.HandleFunc("POST /cart/{id}", cart)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if !to.started() {
			http.Error(w, "not a member of the cluster yet", http.StatusServiceUnavailable)
		}
	})
	return mux
}

// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"errors"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"github.com/knative-cdevents/knative-cdevents/clients/sidecar/key"
)

// reserved are paths that only the sidecar itself asks the application for.
const reserved = "/.stateful/"

// Entry serves the requests of queue-proxy.
func (p *Proxy) Entry(w http.ResponseWriter, r *http.Request) {
	strip(r.Header)
	if isTunnel(r.Header["Upgrade"]) {
		r.Header.Del("Upgrade") // it is answered as if it had not asked for it
	}
	if r.Method == http.MethodConnect || r.URL.Opaque != "" || isReserved(r.URL.Path) {
		http.Error(w, "this method or path is not for clients", http.StatusNotFound)
		return
	}
	leave := p.enter(w, r)
	if leave == nil {
		return
	}
	defer leave()
	found, done, err := p.find(w, r) //nolint:contextcheck // it is that of the request
	defer done()
	switch {
	case errors.Is(err, errMemory):
		p.problem(w, r, &unavailableError{errMemory})
		return
	case errors.Is(err, os.ErrDeadlineExceeded):
		p.o.Metrics.refused("key")
		http.Error(w, err.Error(), http.StatusRequestTimeout)
		return
	case err != nil:
		p.o.Metrics.refused("key")
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s := &request{key: found, shard: -1, begun: time.Now()}
	if found != "" {
		s.shard = p.o.ShardOf(found, p.o.Shards)
	} else {
		p.o.Metrics.keyless.Add(1)
	}
	if p.o.Member != nil {
		s.from = p.o.Member.Revision("")
	}
	p.serve(w, r, s)
}

// isReserved reports whether an application may take a path for a reserved one. It may decode it, ignore case, merge
// slashes, take \ for /, and leave out what follows a semicolon in a segment, as servlets do.
func isReserved(name string) bool {
	segments := strings.Split(strings.ReplaceAll(strings.ToLower(name), "\\", "/"), "/")
	for i, s := range segments {
		segments[i], _, _ = strings.Cut(s, ";")
	}
	return strings.HasPrefix(path.Clean("/"+strings.Join(segments, "/"))+"/", reserved)
}

// isTunnel reports whether a client asks to go on in another form of HTTP. The requests in it would reach the container
// without a key, and with whatever headers and paths the client wants.
func isTunnel(upgrades []string) bool {
	for protocol := range strings.SplitSeq(strings.ToLower(strings.Join(upgrades, ",")), ",") {
		switch name, _, _ := strings.Cut(strings.TrimSpace(protocol), "/"); name {
		case "h2c", "h2", "http", "tls":
			return true
		}
	}
	return false
}

// strip removes headers and trailers that only the sidecar may set.
func strip(h http.Header) {
	for name := range h {
		if key.Reserved(strings.TrimPrefix(name, http.TrailerPrefix)) {
			delete(h, name)
		}
	}
}

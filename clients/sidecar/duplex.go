// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
)

// duplex lets the container answer over HTTP/1.1 while it still reads. Otherwise, the server reads the rest of a
// request itself before it sends the answer. The clients are queue-proxy and other members, which can do this; whether
// the client of queue-proxy gets it is up to an annotation of Knative.
func duplex(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex() // HTTP/2 always has it
		if r.ProtoMajor != 1 || r.Body == http.NoBody || r.Header.Get("Expect") != "" {
			h(w, r) // the server itself closes a connection whose client expected 100 Continue, if any of the body is left
			return
		}
		body := &whole{ReadCloser: r.Body}
		in := *r // the server looks at the body of its own
		in.Body = body
		h(w, &in)
		if !body.closed.Load() {
			_ = control.Flush()
			_ = body.Close() // this reads what is left, as the server would
		}
		if body.broken.Load() {
			endConnection(w)
		}
	})
}

// whole is the body of a request over HTTP/1.1. After an error, its end is unknown. The server looks for
// this only if it is not duplex, and would take what follows for the next request.
type whole struct {
	io.ReadCloser
	broken, closed atomic.Bool
}

// Read implements io.Reader.
func (b *whole) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	b.see(err)
	return n, err //nolint:wrapcheck // a reader's contract
}

// Close implements io.Closer.
func (b *whole) Close() error {
	b.closed.Store(true)
	err := b.ReadCloser.Close()
	b.see(err)
	return err //nolint:wrapcheck // a closer's contract
}

func (b *whole) see(err error) {
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, http.ErrBodyReadAfterClose) {
		b.broken.Store(true)
	}
}

// endConnection has the server close the connection after the answer, be its headers sent or not. It does so for a
// body that is larger than allowed; there is no other way to tell it.
func endConnection(w http.ResponseWriter) {
	_, _ = http.MaxBytesReader(w, io.NopCloser(strings.NewReader("x")), 0).Read(make([]byte, 1))
}

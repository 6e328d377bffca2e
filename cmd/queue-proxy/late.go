// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// late is a writer for a handler that may go on after its request has ended: the time-out of Serving answers, and
// returns. What such a handler says goes nowhere. Without this, the server of HTTP/2 panics, and when a member's 100
// Continue comes that late, it does so where nothing recovers, and ends the process.
type late struct {
	http.ResponseWriter
	request context.Context //nolint:containedctx // it belongs to the request
}

var errLate = errors.New("the request has ended")

// ask calls f unless the request has ended, be it while f runs.
func (w *late) ask(f func() error) (err error) {
	if w.request.Err() != nil {
		return errLate
	}
	defer func() {
		if recover() != nil {
			err = errLate
		}
	}()
	return f()
}

// Header implements http.ResponseWriter.
func (w *late) Header() (h http.Header) {
	if w.ask(func() error { h = w.ResponseWriter.Header(); return nil }) != nil {
		return http.Header{}
	}
	return h
}

// SetReadDeadline is for http.ResponseController.
func (w *late) SetReadDeadline(t time.Time) error {
	return w.ask(func() error { return http.NewResponseController(w.ResponseWriter).SetReadDeadline(t) })
}

// SetWriteDeadline is for http.ResponseController.
func (w *late) SetWriteDeadline(t time.Time) error {
	return w.ask(func() error { return http.NewResponseController(w.ResponseWriter).SetWriteDeadline(t) })
}

// Unwrap is for http.ResponseController.
func (w *late) Unwrap() http.ResponseWriter { return w.ResponseWriter }

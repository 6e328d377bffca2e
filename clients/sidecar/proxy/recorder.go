// SPDX-License-Identifier: Apache-2.0

package proxy

import "net/http"

// recorder sees the status of an answer. It leaves 100 Continue to the server, which sends it when the body is read.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(status int) {
	if status == http.StatusContinue {
		return
	}
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.status = status
	} else {
		strip(w.Header()) // early hints of the application
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

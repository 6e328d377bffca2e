// SPDX-License-Identifier: Apache-2.0

package authserver

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// Dismiss rejects a request and closes the connection without reading the rest.
func Dismiss(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now())
	Refuse(w, status, message)
}

// DismissRefused rejects a request for which err is a *RefusedError. It returns false for other errors. The
// challenge is the value of WWW-Authenticate for a client without a valid token.
func DismissRefused(w http.ResponseWriter, err error, challenge string) bool {
	refusal := (*RefusedError)(nil)
	if !errors.As(err, &refusal) {
		return false
	}
	switch refusal.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", challenge)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	Dismiss(w, refusal.Status, refusal.Message)
	return true
}

// DismissForNow rejects a request that may succeed when the client tries again.
func DismissForNow(w http.ResponseWriter, message string) {
	w.Header().Set("Retry-After", "1")
	Dismiss(w, http.StatusServiceUnavailable, message)
}

// Refuse answers with the reason why there is no other answer.
func Refuse(w http.ResponseWriter, status int, message string) {
	WriteJSON(w, status, map[string]string{"error": message})
}

// WriteJSON answers with a body that no cache keeps.
func WriteJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// The client has disconnected, so the error cannot be sent.
	_ = json.NewEncoder(w).Encode(body)
}

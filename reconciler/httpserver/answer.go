package httpserver

import (
	"encoding/json"
	"net/http"
	"time"
)

// Dismiss rejects a request and closes the connection without reading the rest.
func Dismiss(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now())
	Refuse(w, status, message)
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

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// maxBody is far above the size of an event; a longer body is truncated and marked.
const maxBody = 1 << 20

// Request is a received request and its response status.
type Request struct {
	// Number is the position in order of arrival, starting at 1.
	Number int         `json:"number"`
	Time   time.Time   `json:"time"`
	Method string      `json:"method"`
	Path   string      `json:"path"`
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
	// Cut says that the body was truncated.
	Cut bool `json:"cut,omitempty"`
	// Status is the response status; 0 if there was no response.
	Status int `json:"status"`
}

// Fault replaces the normal response to the next requests.
type Fault struct {
	// Status of the response; 0 means 202.
	Status int `json:"status,omitempty"`
	// Header is added to the response, such as Retry-After or Location.
	Header map[string]string `json:"header,omitempty"`
	// Delay before the response, in milliseconds.
	Delay int `json:"delay,omitempty"`
	// Hang sends no response until the client gives up.
	Hang bool `json:"hang,omitempty"`
	// Count is the number of requests affected; 0 means all until the next fault is set.
	Count int `json:"count,omitempty"`
}

type receiver struct {
	now func() time.Time
	mux *http.ServeMux

	mu       sync.Mutex
	requests []Request
	fault    *Fault
	left     int
}

func newReceiver(now func() time.Time) http.Handler {
	r := &receiver{now: now, mux: http.NewServeMux()}
	r.mux.HandleFunc("GET /requests", r.list)
	r.mux.HandleFunc("POST /fault", r.setFault)
	r.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	r.mux.HandleFunc("/", r.receive)
	return r.mux
}

func (r *receiver) receive(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(io.LimitReader(req.Body, maxBody+1))
	if err != nil {
		// The sender broke off. It will retry, and the retry is recorded.
		http.Error(w, "reading the body: "+err.Error(), http.StatusBadRequest)
		return
	}
	fault := r.keep(req, body)
	if fault == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if fault.Hang {
		<-req.Context().Done()
		return
	}
	select {
	case <-time.After(time.Duration(fault.Delay) * time.Millisecond):
	case <-req.Context().Done():
		return
	}
	for k, v := range fault.Header {
		w.Header().Set(k, v)
	}
	w.WriteHeader(fault.answer())
}

// keep records a request and returns its fault. One lock covers both, so that exactly Count requests get the fault,
// even if they arrive at the same time.
func (r *receiver) keep(req *http.Request, body []byte) *Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	fault := r.fault
	if fault != nil && fault.Count > 0 {
		if r.left--; r.left <= 0 {
			r.fault = nil
		}
	}
	kept := Request{
		Number: len(r.requests) + 1,
		Time:   r.now().UTC(),
		Method: req.Method,
		Path:   req.URL.RequestURI(),
		Header: req.Header.Clone(),
		Body:   body,
		Status: http.StatusAccepted,
	}
	// net/http keeps the Host header apart from the others.
	kept.Header.Set("Host", req.Host)
	if len(body) > maxBody {
		kept.Body, kept.Cut = body[:maxBody], true
	}
	if fault != nil {
		kept.Status = fault.answer()
	}
	r.requests = append(r.requests, kept)
	return fault
}

func (f *Fault) answer() int {
	switch {
	case f.Hang:
		return 0
	case f.Status == 0:
		return http.StatusAccepted
	}
	return f.Status
}

// list returns the requests with a number above "since".
func (r *receiver) list(w http.ResponseWriter, req *http.Request) {
	since := 0
	if s := req.URL.Query().Get("since"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			http.Error(w, fmt.Sprintf("since=%q is not a count of requests", s), http.StatusBadRequest)
			return
		}
		since = n
	}
	r.mu.Lock()
	tail := []Request{}
	if since < len(r.requests) {
		tail = append(tail, r.requests[since:]...)
	}
	r.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	// Ignore a client that has disconnected.
	_ = json.NewEncoder(w).Encode(tail)
}

// setFault replaces the fault; {} removes it.
func (r *receiver) setFault(w http.ResponseWriter, req *http.Request) {
	var f Fault
	dec := json.NewDecoder(io.LimitReader(req.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		http.Error(w, "a fault is {status, header, delay, hang, count}: "+err.Error(), http.StatusBadRequest)
		return
	}
	if f.Status != 0 && (f.Status < 200 || f.Status > 599) || f.Delay < 0 || f.Count < 0 {
		http.Error(w, "status is 200 to 599; delay and count are not negative", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault, r.left = &f, f.Count
	if f.Status == 0 && f.Delay == 0 && !f.Hang {
		r.fault = nil
	}
	w.WriteHeader(http.StatusNoContent)
}

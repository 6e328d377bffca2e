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

// maxBody is far more than an event has; a longer body is cut and marked.
const maxBody = 1 << 20

// Request is one that arrived, and how it was answered.
type Request struct {
	// Number counts from 1 in order of arrival.
	Number int         `json:"number"`
	Time   time.Time   `json:"time"`
	Method string      `json:"method"`
	Path   string      `json:"path"`
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
	// Cut says that the body was longer than what is kept.
	Cut bool `json:"cut,omitempty"`
	// Status that it was answered with; 0 where the answer was withheld.
	Status int `json:"status"`
}

// Fault is how the next requests are treated instead of being accepted.
type Fault struct {
	// Status to answer with; 0 is 202.
	Status int `json:"status,omitempty"`
	// Header to add to the answer: Retry-After, Location.
	Header map[string]string `json:"header,omitempty"`
	// Delay before the answer, in milliseconds.
	Delay int `json:"delay,omitempty"`
	// Hang withholds the answer until the client gives up.
	Hang bool `json:"hang,omitempty"`
	// Count of requests that are treated so; 0 is all until the next fault is set.
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
		// The sender broke off: it will try again, and that request will be complete.
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

// keep stores a request and returns the fault that applies to it. Both happen under one lock, so that a count
// of faults falls on as many requests, however many arrive at once.
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
	// Go keeps the host apart from the other headers.
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

// list answers with the requests whose number is greater than "since".
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
	// A client that went away is no concern of the receiver's.
	_ = json.NewEncoder(w).Encode(tail)
}

// setFault replaces the fault; {} ends it.
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

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"golang.org/x/net/websocket"
)

// seen is what this pod has seen of a stream, which the client names.
type seen struct {
	Pod string `json:"pod"`
	// Begun and Ended: the stream came, and it is over for the application.
	Begun bool `json:"begun"`
	Ended bool `json:"ended"`
	// Bytes are those that came so far.
	Bytes int64 `json:"bytes"`
	// Shard and Key are those of the request that asks.
	Shard string `json:"shard"`
	Key   string `json:"key"`
}

// uploaded is the answer to an upload.
type uploaded struct {
	Pod    string `json:"pod"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

type streams struct {
	pod string

	mu  sync.Mutex
	all map[string]*seen
	// next has what a test sends so that the next event of a stream is written.
	next map[string]chan struct{}
}

func newStreams(pod string) *streams {
	return &streams{pod: pod, all: map[string]*seen{}, next: map[string]chan struct{}{}}
}

func (s *streams) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /state/{id}", s.state)
	mux.HandleFunc("GET /echo/{id}", s.echo)
	mux.HandleFunc("GET /events/{id}", s.events)
	mux.HandleFunc("POST /next/{id}", s.told)
	mux.HandleFunc("PUT /upload/{id}", s.upload)
	mux.HandleFunc("POST /refuse", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	mux.HandleFunc("GET /wait/{id}", s.wait)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Stateful-Key") == "" {
			http.Error(w, "the request has no key", http.StatusNotFound) // also for the hooks: there are none
			return
		}
		w.Header().Set("X-Pod", s.pod)
		mux.ServeHTTP(w, r)
	})
}

// change changes what was seen of a stream.
func (s *streams) change(id string, f func(*seen)) seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[id] == nil {
		s.all[id] = &seen{Pod: s.pod}
	}
	f(s.all[id])
	return *s.all[id]
}

// begin notes that a stream has come. The returned function notes that it is over.
func (s *streams) begin(id string) (end func()) {
	s.change(id, func(one *seen) { one.Begun = true })
	return func() { s.change(id, func(one *seen) { one.Ended = true }) }
}

// signal is what told sends to events.
func (s *streams) signal(id string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next[id] == nil {
		s.next[id] = make(chan struct{}, 100)
	}
	return s.next[id]
}

func (s *streams) state(w http.ResponseWriter, r *http.Request) {
	now := s.change(r.PathValue("id"), func(*seen) {})
	now.Shard, now.Key = r.Header.Get("Stateful-Shard"), r.Header.Get("Stateful-Key")
	answer(w, now)
}

// echo returns each message of a WebSocket.
func (s *streams) echo(w http.ResponseWriter, r *http.Request) {
	end := s.begin(r.PathValue("id"))
	defer end()
	websocket.Server{Handler: func(conn *websocket.Conn) {
		for {
			var message string
			if websocket.Message.Receive(conn, &message) != nil || websocket.Message.Send(conn, message) != nil {
				return // the client has gone
			}
		}
	}}.ServeHTTP(w, r)
}

// events writes an event at once, and another one whenever it is told to.
func (s *streams) events(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	end := s.begin(id)
	defer end()
	w.Header().Set("Content-Type", "text/event-stream")
	for i, next := 0, s.signal(id); ; i++ {
		if _, err := fmt.Fprintf(w, "data: %d\n\n", i); err != nil {
			return
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		select {
		case <-next:
		case <-r.Context().Done():
			return
		}
	}
}

func (s *streams) told(_ http.ResponseWriter, r *http.Request) {
	s.signal(r.PathValue("id")) <- struct{}{}
}

// upload keeps nothing of a body but its hash.
func (s *streams) upload(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	end := s.begin(id)
	defer end()
	hash, buffer := sha256.New(), make([]byte, 32<<10)
	out := uploaded{Pod: s.pod}
	for {
		n, err := r.Body.Read(buffer)
		_, _ = hash.Write(buffer[:n]) // a hash never fails
		out.Bytes += int64(n)
		s.change(id, func(one *seen) { one.Bytes = out.Bytes })
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	out.SHA256 = hex.EncodeToString(hash.Sum(nil))
	answer(w, out)
}

// wait answers nothing before the client has gone.
func (s *streams) wait(_ http.ResponseWriter, r *http.Request) {
	end := s.begin(r.PathValue("id"))
	defer end()
	<-r.Context().Done()
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // ignore a client that has disconnected
}

// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/knative-cdevents/knative-cdevents/cli/screen"
)

const (
	// calm is how long changes are collected before they are shown.
	calm = 250 * time.Millisecond
	// refresh is after how long what is shown is made anew without a change: texts contain durations.
	refresh = 10 * time.Second
)

// message is one event of a stream.
type message struct {
	// Now is this machine's time, from which the page counts ages.
	Now  time.Time       `json:"now"`
	Data json.RawMessage `json:"data"`
}

// stream sends a view, and again after each change of it, as server-sent events.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	wake, done := s.subscribe()
	defer done()
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	var last []byte
	for {
		shown, err := screen.Values(s.view(r.Context(), r.URL.Query()))
		if err != nil {
			return // the view is made of plain values
		}
		data, err := json.Marshal(shown)
		if err != nil {
			return // the view is made of plain values
		}
		text := ": nothing new\n\n"
		if !bytes.Equal(data, last) {
			event, err := json.Marshal(message{Now: s.Now(), Data: data})
			if err != nil {
				return
			}
			last, text = data, fmt.Sprintf("data: %s\n\n", event)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			return
		}
		if out.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(refresh):
			continue
		case <-wake:
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(calm):
		}
	}
}

// frame is what every view has.
type frame struct {
	Cluster string `json:"cluster"`
	// Scope is the namespace that is shown; empty for all.
	Scope string `json:"scope"`
	// Error says why there is nothing else to show.
	Error string `json:"error,omitempty"`
	// Notes say what is left out, and why.
	Notes []string `json:"notes,omitempty"`
	// Troubles say what may be out of date.
	Troubles []string `json:"troubles,omitempty"`

	Fleet   *fleet   `json:"fleet,omitempty"`
	Service *service `json:"service,omitempty"`
}

func (s *Server) view(ctx context.Context, q url.Values) *frame {
	f := &frame{Cluster: s.Cluster, Scope: s.Namespace}
	var err error
	if name := q.Get("name"); name != "" {
		f.Service, f.Notes, err = s.service(ctx, q.Get("namespace"), name)
	} else {
		f.Fleet, f.Notes, err = s.fleet(ctx, q)
	}
	if err != nil {
		f.Error = err.Error()
	}
	f.Troubles = s.live.Troubles()
	return f
}

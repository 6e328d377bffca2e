// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/client"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/protocol"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// received is what arrived over the wire, and how the CloudEvents SDK reads it.
type received struct {
	header http.Header
	body   []byte
	event  *event.Event
	err    error
}

// receiver is an HTTP server that keeps the last request.
func receiver(t *testing.T) (string, *received) {
	t.Helper()
	got := &received{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.header = r.Header.Clone()
		if got.body, got.err = io.ReadAll(r.Body); got.err == nil {
			got.event, got.err = binding.ToEvent(r.Context(), cehttp.NewMessage(got.header, io.NopCloser(bytes.NewReader(got.body))))
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(server.Close)
	return server.URL, got
}

func send(ctx context.Context, t *testing.T, url string, e event.Event) {
	t.Helper()
	c, err := client.NewHTTP(cehttp.WithTarget(url))
	if err != nil {
		t.Fatal(err)
	}
	if result := c.Send(ctx, e); !protocol.IsACK(result) {
		t.Fatalf("the receiver rejected the event: %v", result)
	}
}

// cloudevents-binding.md: what each attribute MUST be set to.
func TestBinaryModeFollowsTheBinding(t *testing.T) {
	url, got := receiver(t)
	each(t, func(t *testing.T, version string, tr lifecycle.Transition) {
		e := render(t, profile(version), tr)
		send(t.Context(), t, url, e)
		if got.err != nil {
			t.Fatal(got.err)
		}
		var body struct {
			Context struct{ ID, Source, Type, Timestamp string }
			Subject struct{ ID string }
		}
		if err := json.Unmarshal(got.body, &body); err != nil {
			t.Fatal(err)
		}
		for header, want := range map[string]string{
			"Ce-Specversion": "1.0",
			"Ce-Id":          body.Context.ID,
			"Ce-Source":      body.Context.Source,
			"Ce-Type":        body.Context.Type,
			"Ce-Subject":     body.Subject.ID,
			"Ce-Time":        body.Context.Timestamp,
			"Content-Type":   "application/json",
		} {
			if have := got.header.Get(header); have != want || want == "" {
				t.Errorf("%s is %q, want %q", header, have, want)
			}
		}
		for _, line := range binaryHeaders(e) {
			if name, want, _ := strings.Cut(line, ": "); got.header.Get(name) != want {
				t.Errorf("the page shows %s, the request has %q", line, got.header.Get(name))
			}
		}
		if string(got.body) != string(e.Data()) {
			t.Errorf("the body is not the CDEvent: %s", got.body)
		}
		same(t, e, *got.event)
	})
}

func TestStructuredModeFollowsTheBinding(t *testing.T) {
	url, got := receiver(t)
	each(t, func(t *testing.T, version string, tr lifecycle.Transition) {
		e := render(t, profile(version), tr)
		send(binding.WithForceStructured(t.Context()), t, url, e)
		if got.err != nil {
			t.Fatal(got.err)
		}
		if ct := got.header.Get("Content-Type"); ct != "application/cloudevents+json" {
			t.Errorf("Content-Type is %q", ct)
		}
		var body struct {
			DataContentType string `json:"datacontenttype"`
			Time            string
			Data            struct{ Context struct{ Timestamp string } }
		}
		if err := json.Unmarshal(got.body, &body); err != nil {
			t.Fatal(err)
		}
		if body.DataContentType != "application/json" || body.Time != body.Data.Context.Timestamp {
			t.Errorf("datacontenttype %q, time %q, timestamp %q", body.DataContentType, body.Time, body.Data.Context.Timestamp)
		}
		same(t, e, *got.event)
	})
}

func same(t *testing.T, sent, got event.Event) {
	t.Helper()
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
	want, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	have, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(have) {
		t.Errorf("sent %s\ngot  %s", want, have)
	}
}

// Times survive the ledger, which keeps microseconds.
func TestTimeIsUTCWithMicroseconds(t *testing.T) {
	tr := transitionOf(t, lifecycle.Deployed)
	tr.Time = time.Date(2026, 11, 21, 10, 0, 0, 123456789, time.FixedZone("CET", 3600))
	e := render(t, profile(Version05), tr)
	if want := time.Date(2026, 11, 21, 9, 0, 0, 123456000, time.UTC); e.Time() != want {
		t.Errorf("time is %s, want %s", e.Time(), want)
	}
}

// SPDX-License-Identifier: Apache-2.0

package http

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

func TestBinaryIsTheDefault(t *testing.T) {
	t.Parallel()
	ev := newEvent(t)
	got := make(chan *http.Request, 1)
	body := make(chan []byte, 1)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- r
		body <- b
		w.WriteHeader(http.StatusAccepted)
	})
	if out := local().Send(t.Context(), at(s.URL+"/hook?x=1"), ev, quick()); out.Class != transport.Acknowledged {
		t.Fatal(out)
	}
	r := <-got
	if r.Method != http.MethodPost || r.URL.String() != "/hook?x=1" {
		t.Errorf("%s %s", r.Method, r.URL)
	}
	for name, want := range map[string]string{
		"Ce-Id": "4f3c", "Ce-Type": ev.Type(), "Ce-Source": ev.Source(), "Ce-Specversion": "1.0",
		"Ce-Team": "web", "Ce-Time": "2026-11-21T09:00:00.123456Z", "Content-Type": "application/json",
		"Content-Length": "13", "User-Agent": "knative-cdevents",
		// No reply is requested, and headers that only net/http needs are not sent.
		"Prefer": "", "X-Idempotency-Key": "",
	} {
		if r.Header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, r.Header.Get(name), want)
		}
	}
	if b := <-body; string(b) != `{"id":"cart"}` {
		t.Errorf("body %s", b)
	}
}

func TestRetriesSendTheSameBytes(t *testing.T) {
	t.Parallel()
	for _, mode := range []transport.Mode{transport.Binary, transport.Structured} {
		var bodies [][]byte
		s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			ev, err := cehttp.NewEventFromHTTPRequest(r)
			if err != nil {
				t.Error(err)
				return
			}
			structured := strings.HasPrefix(r.Header.Get("Content-Type"), "application/cloudevents+json")
			if structured != (mode == transport.Structured) {
				t.Errorf("mode %v sent as %s", mode, r.Header.Get("Content-Type"))
			}
			b, _ := json.Marshal(ev)
			bodies = append(bodies, b)
		})
		ev := newEvent(t)
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			ev.SetExtension(name, name)
		}
		p := quick()
		p.Mode = mode
		clients := local()
		for range 5 {
			if out := clients.Send(t.Context(), at(s.URL), ev, p); out.Class != transport.Acknowledged {
				t.Fatal(out)
			}
		}
		for _, b := range bodies[1:] {
			if !bytes.Equal(b, bodies[0]) {
				t.Errorf("mode %v: %s differs from %s", mode, b, bodies[0])
			}
		}
	}
}

func TestInvalidEventsArePoison(t *testing.T) {
	t.Parallel()
	contacted := false
	s := serve(t, func(http.ResponseWriter, *http.Request) { contacted = true })

	incomplete := newEvent(t)
	incomplete.SetID("")
	out := local().Send(t.Context(), at(s.URL), incomplete, quick())
	if out.Class != transport.Poison {
		t.Error(out)
	}
	checkError(t, out.Err, "not a valid CloudEvent")
	broken := newEvent(t)
	broken.SetDataContentType("application/json\r\nX-Evil: 1")
	if out = local().Send(t.Context(), at(s.URL), broken, quick()); out.Class != transport.Poison {
		t.Error(out)
	}
	if contacted {
		t.Error("the sink was contacted")
	}
}

func TestReplyEventsAreIgnored(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Ce-Id", "reply")
		w.Header().Set("Ce-Type", "reply")
		_, _ = w.Write([]byte(`{"answer":42}`))
	})
	if out := local().Send(t.Context(), at(s.URL), newEvent(t), quick()); out.Class != transport.Acknowledged || out.Err != nil {
		t.Error(out)
	}
}

// hang never responds. It reads the body first, because only then it notices that the client is
// gone.
func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func TestHangingSinkTimesOut(t *testing.T) {
	t.Parallel()
	s := serve(t, hang)
	p := quick()
	p.Timeout = 100 * time.Millisecond
	start := time.Now()
	out := local().Send(t.Context(), at(s.URL), newEvent(t), p)
	if took := time.Since(start); took > time.Second {
		t.Errorf("took %v", took)
	}
	if out.Class != transport.Retry || !errors.Is(out.Err, context.DeadlineExceeded) {
		t.Error(out)
	}
	checkError(t, out.Err, "no answer within 100ms", "spec.delivery.timeout")
}

// After the switch to another protocol, the client must close the connection itself.
func TestSwitchingProtocolsDoesNotBlock(t *testing.T) {
	t.Parallel()
	s := serveConn(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn) // until the other side closes
	})
	start := time.Now()
	if out := local().Send(t.Context(), at(s.URL), newEvent(t), quick()); out.Class != transport.Retry || time.Since(start) > 5*time.Second {
		t.Errorf("%v after %s", out, time.Since(start))
	}
}

func TestShutdownEndsTheAttempt(t *testing.T) {
	t.Parallel()
	s := serve(t, hang)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	out := local().Send(ctx, at(s.URL), newEvent(t), transport.DefaultPolicy())
	if out.Class != transport.Retry || !errors.Is(out.Err, context.Canceled) {
		t.Error(out)
	}
	checkError(t, out.Err, "stopping")
}

// The status decides. A body that never ends neither revokes the acknowledgement nor blocks.
func TestEndlessBody(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]time.Duration{"fast": 0, "slow": 10 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusOK)
				for r.Context().Err() == nil {
					if _, err := w.Write(make([]byte, 32)); err != nil {
						return
					}
					w.(http.Flusher).Flush() //nolint:errcheck,forcetypeassert // httptest's writer is a Flusher
					time.Sleep(step)
				}
			})
			start := time.Now()
			p := transport.DefaultPolicy()
			if out := local().Send(t.Context(), at(s.URL), newEvent(t), p); out.Class != transport.Acknowledged {
				t.Error(out)
			}
			if took := time.Since(start); took > 4*bodyPatience {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestHugeBodyDoesNotFillMemory(t *testing.T) {
	const size = 64 << 20
	chunk := make([]byte, 1<<20)
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for range size / len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	clients := local()
	ev := newEvent(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 5 {
		if out := clients.Send(t.Context(), at(s.URL), ev, quick()); out.Class != transport.Acknowledged {
			t.Fatal(out)
		}
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 8<<20 {
		t.Errorf("%d MiB were allocated for five responses of 64 MiB", grown>>20)
	}
}

func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	opened := 0
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(time.Millisecond)
		_, _ = w.Write(make([]byte, 4096))
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			mu.Lock()
			opened++
			mu.Unlock()
		}
	}
	s.Start()
	t.Cleanup(s.Close)

	clients, ev := local(), newEvent(t)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range 30 {
				if out := clients.Send(t.Context(), at(s.URL), ev, quick()); out.Class != transport.Acknowledged {
					t.Error(out)
				}
			}
		})
	}
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	t.Logf("%d connections for %d events", opened, workers*30)
	if opened > 2*workers {
		t.Errorf("%d connections for %d workers", opened, workers)
	}
}

// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/clients/sidecar/key"
)

// Events whose key is in the body take no more memory than others before they are counted.
func TestSlowEvents(t *testing.T) {
	f := newFleet(t)
	f.configure = func(c *Config) {
		c.MostOpen = 10
		var err error
		if c.Key, err = key.Parse("event:subject"); err != nil {
			t.Fatal(err)
		}
	}
	a := f.start("stable", &echo{name: "a"})
	var refused atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		conn, in := a.dial(t)
		all.Go(func() {
			_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/cloudevents+json\r\nContent-Length: 1000\r\n\r\n{")
			_ = conn.SetReadDeadline(time.Now().Add(time.Second))
			if line, err := in.ReadString('\n'); err == nil && strings.Contains(line, "503") {
				refused.Add(1)
			}
		})
	}
	all.Wait()
	if refused.Load() != 40 {
		t.Errorf("%d of 50 events were refused, want 40", refused.Load())
	}
}

// eventual is a fleet of one pod whose keys are in events.
func eventual(t *testing.T, app http.Handler, configure func(*Config)) (*fleet, *pod) {
	t.Helper()
	f := newFleet(t)
	f.configure = func(c *Config) {
		c.Placement.Patience, c.mostRead = time.Second, 4<<20
		var err error
		if c.Key, err = key.Parse("event:subject"); err != nil {
			t.Fatal(err)
		}
		configure(c)
	}
	return f, f.start("stable", app)
}

// event is one in structured mode, of a size.
func event(size int) string {
	head := `{"subject":"one","data":"`
	return head + strings.Repeat("x", size-len(head)-2) + `"}`
}

// Many large events at once are in memory up to a limit. More wait, and then can be tried again.
func TestManyLargeEvents(t *testing.T) {
	// Of these, one is sent to the container, and 4 MiB are in memory.
	const events, answer = 40, 5
	body := event(1 << 20)
	for name, length := range map[string]int64{"length": 1 << 20, "chunks": -1} {
		t.Run(name, func(t *testing.T) {
			hold := make(chan struct{})
			f, a := eventual(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/.stateful/") {
					http.NotFound(w, r)
					return
				}
				n, _ := io.Copy(io.Discard, r.Body)
				<-hold
				_, _ = fmt.Fprint(w, n)
			}), func(c *Config) { c.Concurrency, c.Placement.Patience = 1, 2*time.Second })
			var answered, refused atomic.Int64
			var all sync.WaitGroup
			for range events {
				all.Go(func() {
					req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, a.entry+"/", strings.NewReader(body))
					req.Header.Set("Content-Type", "application/cloudevents+json")
					req.ContentLength = length
					resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
					if err != nil {
						refused.Add(1) // while it sent
						return
					}
					got, _ := io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					switch {
					case resp.StatusCode == http.StatusOK && string(got) == fmt.Sprint(1<<20):
						answered.Add(1)
					case resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "":
						refused.Add(1)
					default:
						t.Errorf("%d %s", resp.StatusCode, got)
					}
				})
			}
			for deadline := time.Now().Add(20 * time.Second); refused.Load() < events-answer && time.Now().Before(deadline); {
				time.Sleep(10 * time.Millisecond)
			}
			close(hold)
			all.Wait()
			if answered.Load() != answer {
				t.Errorf("%d of %d events were answered, and %d refused", answered.Load(), events, refused.Load())
			}
			f.until("none is open", func() bool { return a.member.Open() == 0 })
		})
	}
}

// Clients that do not send the rest of large events keep others out for 10 s at most, and small events never. After that
// time, both get an answer.
func TestStalledLargeEvents(t *testing.T) {
	f, a := eventual(t, &echo{name: "a"}, func(*Config) {})
	post := func(size int) int {
		resp, _ := f.do(a, http.MethodPost, "/", "", event(size), "Content-Type", "application/cloudevents+json")
		return resp.StatusCode
	}
	if status := post(1 << 20); status != http.StatusOK {
		t.Fatal(status)
	}
	for range 4 {
		conn, _ := a.dial(t)
		_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/cloudevents+json\r\n"+
			"Content-Length: 1048576\r\n\r\n"+event(5000))
	}
	queueProxy := httptest.NewServer(a.Entry())
	t.Cleanup(queueProxy.Close)
	small := map[string]net.Conn{}
	for name, at := range map[string]string{"container": a.entry, "queue-proxy": queueProxy.URL} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(at, "http://")) //nolint:noctx // a test's
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/cloudevents+json\r\nContent-Length: 100\r\n\r\n{")
		small[name] = conn
	}
	time.Sleep(500 * time.Millisecond)
	for range 10 {
		if status := post(1000); status != http.StatusOK {
			t.Error(status)
		}
	}
	if status := post(1 << 20); status != http.StatusServiceUnavailable {
		t.Error(status)
	}
	time.Sleep(10 * time.Second)
	if status := post(1 << 20); status != http.StatusOK {
		t.Error(status)
	}
	for name, conn := range small {
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if got, err := io.ReadAll(conn); err != nil || !strings.Contains(string(got), "408") {
			t.Errorf("a small event that stalls, %s: %q %v", name, got, err)
		}
	}
}

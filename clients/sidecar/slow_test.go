// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// A client that stops to read its answer, or to send its request, keeps a shard no longer than the request time-out.
func TestSlowClientsOfAShardThatMoves(t *testing.T) {
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			for _, err := w.Write(make([]byte, 1<<20)); err == nil; {
				_, err = w.Write(make([]byte, 1<<20))
			}
		case "/upgrade":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			_, err = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			for err == nil {
				_, err = conn.Write(make([]byte, 1<<20))
			}
			_ = conn.Close()
		case "/upload":
			_, _ = io.Copy(io.Discard, r.Body)
		case "/":
		default:
			http.NotFound(w, r)
		}
	})
	for name, head := range map[string]string{
		"download": "GET /large HTTP/1.1\r\nHost: a\r\nX-Key: %s\r\n\r\n",
		"upload":   "POST /upload HTTP/1.1\r\nHost: a\r\nX-Key: %s\r\nContent-Length: 100\r\n\r\nsome",
		"upgrade":  "GET /upgrade HTTP/1.1\r\nHost: a\r\nX-Key: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
	} {
		for _, way := range []string{"local", "forwarded"} {
			t.Run(name+" "+way, func(t *testing.T) {
				f := newFleet(t)
				f.configure = func(c *Config) { c.RequestTimeout = time.Second }
				a, b := f.start("stable", app), f.start("stable", app)
				f.together(2)
				f.enforce(func(int) *pod { return a })
				entry := map[string]*pod{"local": a, "forwarded": b}[way]
				conn, _ := entry.dial(t)
				_, _ = fmt.Fprintf(conn, head, keyOf(2))
				f.until("it is open", func() bool { return a.member.Open() == 1 })
				time.Sleep(300 * time.Millisecond)
				f.enforce(func(int) *pod { return b })
				// Closing a connection of TLS may take 5 s more.
				for deadline := time.Now().Add(15 * time.Second); a.member.Open() > 0; time.Sleep(10 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Error("the shard cannot leave")
						_ = conn.Close()
						return
					}
				}
				if resp, body := f.do(b, http.MethodPost, "/", keyOf(2), "x"); resp.StatusCode != http.StatusOK {
					t.Errorf("%d %s", resp.StatusCode, body)
				}
			})
		}
	}
}

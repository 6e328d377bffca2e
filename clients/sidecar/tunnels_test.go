// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// An upgrade to another form of HTTP would be a tunnel to the container, in which requests have no key and headers are
// not looked at. It is not offered to the container, which answers the request itself.
func TestTunnelsOfHTTP(t *testing.T) {
	f := newFleet(t)
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		if r.Header.Get("Upgrade") == "" {
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
		_ = conn.Close()
	})
	a, b := f.start("stable", app), f.start("canary", app)
	f.together(2)
	f.enforce(func(s int) *pod { return []*pod{a, b}[s%2] })
	for upgrade, want := range map[string]string{
		"h2c": "200", "H2C": "200", "HTTP/2.0": "200", "TLS/1.2, HTTP/1.1": "200", "websocket, h2c": "200", "h2c\r\nUpgrade: websocket": "200",
		"websocket": "101", "chat/1": "101",
	} {
		for _, key := range []string{"", "X-Key: " + keyOf(2) + "\r\n", "X-Key: " + keyOf(3) + "\r\n"} {
			got := a.raw(t, "GET / HTTP/1.1\r\nHost: a\r\n"+key+"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: "+upgrade+
				"\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
			if !strings.HasPrefix(got, "HTTP/1.1 "+want) {
				line, _, _ := strings.Cut(got, "\r\n")
				t.Errorf("Upgrade: %q, %q: %s", upgrade, key, line)
			}
		}
	}
}

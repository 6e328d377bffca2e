// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A request that was forwarded to a pod which then is gone does not wait for an answer that cannot come.
func TestForwardedToAPodThatIsGone(t *testing.T) {
	f, a, b, _ := two(t)
	f.do(a, http.MethodGet, "/", keyOf(3), "") // the connection is there
	frozen := make(chan struct{})
	begun := make(chan struct{})
	go b.member.Serial(func() { close(begun); <-frozen })
	<-begun
	defer close(frozen)
	for _, client := range []http.RoundTripper{&http.Transport{}, h2c()} {
		done := make(chan int, 1)
		go func() {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, a.entry+"/", nil)
			req.Header.Set("X-Key", keyOf(3))
			resp, err := client.RoundTrip(req)
			if err != nil {
				done <- 0
				return
			}
			_ = resp.Body.Close()
			done <- resp.StatusCode
		}()
		defer func() {
			select {
			case status := <-done:
				if status != http.StatusBadGateway {
					t.Errorf("the answer is %d", status)
				}
			case <-time.After(5 * time.Second):
				t.Error("the request still waits")
			}
		}()
	}
	time.Sleep(300 * time.Millisecond) // both are sent
	f.controller.gone(b.name)
}

// Whoever gets no answer because a member cannot be reached learns which one, for how long, and what to do.
func TestMemberThatCannotBeReached(t *testing.T) {
	f := newFleet(t)
	f.configure = func(c *Config) { c.Placement.Patience = 300 * time.Millisecond }
	a, b := f.start("stable", &echo{name: "a"}), f.start("stable", &echo{name: "b"})
	f.together(2)
	f.enforce(func(int) *pod { return b })
	b.member.Group().Kill()
	b.stop()
	<-b.ended
	b.ended <- nil
	for _, silent := range []bool{false, true} {
		if silent { // the port accepts connections, and nothing answers
			l, err := net.Listen("tcp", b.member.Address()) //nolint:noctx // a test's
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
		}
		for what, client := range map[string]http.RoundTripper{"HTTP/1.1": &http.Transport{}, "HTTP/2": h2c()} {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, a.entry+"/", strings.NewReader("body"))
			req.Header.Set("X-Key", keyOf(3))
			resp, err := client.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			says := regexp.MustCompile(`send it again.* Retry-After.*member ` + b.member.Address() + `.* for [0-9.]+m?s`)
			if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || !says.Match(body) {
				t.Errorf("%s, silent: %v: %d %s", what, silent, resp.StatusCode, body)
			}
		}
	}
}

// A member that does not know yet that it is gone passes on that its request was not handled, not that it is refused.
func TestForwardedByAMemberThatIsGone(t *testing.T) {
	f, a, b, echoes := two(t)
	post := func() answered {
		resp, _ := f.do(a, http.MethodPost, "/", keyOf(3), "body")
		return resp
	}
	if resp := post(); resp.StatusCode != http.StatusOK { // the connection is there
		t.Fatal(resp.StatusCode)
	}
	f.controller.deaf(a.name)
	f.controller.gone(a.name)
	f.until("the list has changed", func() bool { others, _ := b.member.Group().Members.Others(); return len(others) == 0 })
	if resp := post(); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	if n := len(echoes[1].got); n != 1 {
		t.Errorf("the container got %d requests", n)
	}
}

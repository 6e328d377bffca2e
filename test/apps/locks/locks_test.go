// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
)

// pod is a connection that holds locks.
type pod struct {
	net.Conn
	read *bufio.Reader
}

func (p pod) say(t *testing.T, line, want string) {
	t.Helper()
	if _, err := fmt.Fprintln(p, line); err != nil {
		t.Fatal(err)
	}
	if got, err := p.read.ReadString('\n'); err != nil || strings.TrimSpace(got) != want {
		t.Fatalf("%s: the answer is %q (error: %v), want %q", line, got, err, want)
	}
}

func connect(t *testing.T, server *httptest.Server, query string) pod {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprintf(conn, "POST /hold?pod=%s HTTP/1.1\r\nHost: locks\r\nContent-Length: 0\r\n\r\n", query); err != nil {
		t.Fatal(err)
	}
	p := pod{conn, bufio.NewReader(conn)}
	resp, err := http.ReadResponse(p.read, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // the connection stays open
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("connecting: %s", resp.Status)
	}
	return p
}

func reported(t *testing.T, server *httptest.Server) (r report) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/locks", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

func start(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(newLocks(func() time.Time { return time.Unix(0, 0).UTC() }).handler())
	t.Cleanup(server.Close)
	return server
}

func TestAHandOverIsNoSecondHolder(t *testing.T) {
	server := start(t)
	a, b := connect(t, server, "a"), connect(t, server, "b")
	a.say(t, "take cart-1", "ok")
	a.say(t, "give cart-1", "ok")
	b.say(t, "take cart-1", "ok")
	want := report{Taken: 2, Held: 1, Twice: []twice{}, Pods: map[string]int{"a": 1, "b": 1}, Ended: map[string]int{}}
	if got := reported(t, server); !reflect.DeepEqual(got, want) {
		t.Errorf("the report is %+v, want %+v", got, want)
	}
}

func TestASecondHolderIsRecorded(t *testing.T) {
	server := start(t)
	a, b := connect(t, server, "a"), connect(t, server, "b")
	a.say(t, "take cart-1", "ok")
	b.say(t, "take cart-1", "held by a")
	a.say(t, "give cart-1", "ok")
	b.say(t, "take cart-1", "held by b") // two in one pod are two as well
	got := reported(t, server)
	at := time.Unix(0, 0).UTC()
	want := []twice{{"cart-1", []string{"a"}, "b", at}, {"cart-1", []string{"b"}, "b", at}}
	if got.HeldTwice != 2 || !reflect.DeepEqual(got.Twice, want) {
		t.Errorf("the report is %+v, want %+v", got, want)
	}
}

func TestTheEndOfAConnectionGivesItsLocksBack(t *testing.T) {
	server := start(t)
	a, b := connect(t, server, "a"), connect(t, server, "b")
	a.say(t, "take cart-1", "ok")
	a.say(t, "take cart-2", "ok")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	for reported(t, server).Pods["a"] > 0 {
		time.Sleep(time.Millisecond)
	}
	b.say(t, "take cart-1", "ok")
	got := reported(t, server)
	want := report{Taken: 3, Held: 1, Twice: []twice{}, Pods: map[string]int{"b": 1}, Ended: map[string]int{"a": 2}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the report is %+v, want %+v", got, want)
	}
}

func TestALockOfAConnection(t *testing.T) {
	server := start(t)
	a := connect(t, server, "a&lock=cart-1")
	connect(t, server, "b").say(t, "take cart-1", "held by a")
	tcp, is := a.Conn.(*net.TCPConn)
	if !is {
		t.Fatalf("%T", a.Conn)
	}
	if err := tcp.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.read.ReadByte(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	got := reported(t, server)
	if got.Taken != 2 || got.Held != 1 || got.HeldTwice != 1 || got.Ended["a"] != 0 {
		t.Errorf("the report is %+v", got)
	}
}

func TestWhatIsWrongEndsTheConnection(t *testing.T) {
	server := start(t)
	for _, line := range []string{"give cart-1", "take", "hello"} {
		a := connect(t, server, "a")
		if _, err := fmt.Fprintln(a, line); err != nil {
			t.Fatal(err)
		}
		if got, err := a.read.ReadString('\n'); err == nil {
			t.Errorf("%s: the answer is %q, want none", line, got)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// freezer is a member that can stop to read all that comes, as if it was suspended, or cut off.
type freezer struct {
	net.Listener
	mu     sync.Mutex
	thawed chan struct{}
	got    map[string]bool
}

// frozen replaces a pod by a freezer that has its key and its address.
func (f *fleet) frozen(p *pod) *freezer {
	f.Helper()
	p.member.Group().Kill()
	p.stop()
	<-p.ended
	p.ended <- nil
	l, err := net.Listen("tcp", p.member.Address()) //nolint:noctx // a test's
	if err != nil {
		f.Fatal(err)
	}
	z := &freezer{Listener: l, thawed: make(chan struct{}), got: map[string]bool{}}
	close(z.thawed)
	s := server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Stateful-Protocol") != "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		z.mu.Lock()
		z.got[r.Header.Get("X-Request")] = true
		z.mu.Unlock()
	}), p.log)
	s.Protocols.SetHTTP2(true)
	s.TLSConfig = p.member.ServerTLS()
	go func() { _ = s.ServeTLS(z, "", "") }()
	f.Cleanup(func() { _ = s.Close() })
	return z
}

func (z *freezer) freeze() {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.thawed = make(chan struct{})
}

// Accept implements net.Listener.
func (z *freezer) Accept() (net.Conn, error) {
	conn, err := z.Listener.Accept()
	if tcp, is := conn.(*net.TCPConn); is {
		_ = tcp.SetReadBuffer(256 << 10)
	}
	return &frozenConn{conn, z}, err
}

type frozenConn struct {
	net.Conn
	z *freezer
}

// Read implements io.Reader.
func (c *frozenConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.z.mu.Lock()
	thawed := c.z.thawed
	c.z.mu.Unlock()
	<-thawed
	return n, err
}

// status sends a request of shard 3 over HTTP/2 to a pod, and returns the status of the answer; 0: there is none in time.
func (f *fleet) status(client http.RoundTripper, p *pod, within time.Duration, name, padding string) int {
	ctx, cancel := context.WithTimeout(f.Context(), within)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, p.entry+"/", nil)
	req.Header.Set("X-Key", keyOf(3))
	req.Header.Set("X-Request", name)
	req.Header.Set("X-Padding", padding)
	resp, err := client.RoundTrip(req)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

// A connection over which nothing comes is not used forever. Over HTTP/2, all requests for a member share one.
func TestMemberThatIsCutOff(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.configure = func(c *Config) { c.Placement.Patience = time.Second }
	a, b := f.start("stable", &echo{name: "a"}), f.start("canary", &echo{name: "b"})
	f.together(2)
	f.enforce(func(s int) *pod { return []*pod{a, b}[s%2] })
	z, client := f.frozen(b), h2c()
	if got := f.status(client, a, 5*time.Second, "first", ""); got != http.StatusOK {
		t.Fatal(got)
	}
	z.freeze()
	defer close(z.thawed)
	if got := f.status(client, a, 30*time.Second, "sent", ""); got != http.StatusBadGateway {
		t.Errorf("sent before it is known: %d", got)
	}
	if got := f.status(client, a, 10*time.Second, "later", ""); got != http.StatusServiceUnavailable {
		t.Errorf("later: %d", got)
	}
}

// A request that gets 503, and so can be sent again, does not reach the member later.
func TestMemberThatReadsLater(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.configure = func(c *Config) { c.Placement.Patience = 2 * time.Second }
	a, b := f.start("stable", &echo{name: "a"}), f.start("canary", &echo{name: "b"})
	f.together(2)
	f.enforce(func(s int) *pod { return []*pod{a, b}[s%2] })
	z, client := f.frozen(b), h2c()
	f.status(client, a, 5*time.Second, "first", "")
	z.freeze()
	var mu sync.Mutex
	statuses := map[int][]string{}
	var all sync.WaitGroup
	padding := strings.Repeat("~", 40<<10) // it is not compressed
	for i := range 400 {
		all.Go(func() {
			name := fmt.Sprint(i)
			got := f.status(client, a, 4*time.Second, name, padding)
			mu.Lock()
			defer mu.Unlock()
			statuses[got] = append(statuses[got], name)
		})
	}
	all.Wait()
	close(z.thawed)
	time.Sleep(3 * time.Second)
	z.mu.Lock()
	defer z.mu.Unlock()
	t.Logf("%d sent, %d refused, the member got %d", len(statuses[0]), len(statuses[503]), len(z.got))
	if len(statuses[http.StatusServiceUnavailable]) == 0 {
		t.Error("no request was refused")
	}
	for _, name := range statuses[http.StatusServiceUnavailable] {
		if z.got[name] {
			t.Errorf("request %s was refused, and reached the member", name)
		}
	}
}

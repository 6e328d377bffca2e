// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/clients/placement"
)

// controller fakes the controller: it registers members, and serves plans.
type controller struct {
	*httptest.Server
	mu      sync.Mutex
	plan    placement.Plan
	away    bool
	changed chan struct{}
	// cut is a pod that gets no answer any more.
	cut string
}

func newController(t testing.TB) *controller {
	t.Helper()
	c := &controller{changed: make(chan struct{}), plan: placement.Plan{
		Namespace: "shop", Service: "cart", Version: 1000, Mode: placement.Observe, AtOnce: 10,
	}}
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.Close)
	return c
}

func (c *controller) serve(w http.ResponseWriter, r *http.Request) {
	pod := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	wait, _ := time.ParseDuration(r.URL.Query().Get("wait"))
	until := time.After(wait)
	if r.URL.Path == "/v1/namespaces/shop/services/cart/placement/member" {
		var in placement.Registration
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if r.Method == http.MethodPut {
			c.register(pod, in)
		} else {
			c.left(in)
		}
	}
	for {
		c.mu.Lock()
		away, changed, version := c.away || c.cut == pod, c.changed, c.plan.Version
		body, _ := json.Marshal(c.plan)
		c.mu.Unlock()
		if away {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if r.Header.Get("If-None-Match") != strconv.Quote(strconv.FormatInt(version, 10)) {
			_, _ = w.Write(body)
			return
		}
		select {
		case <-changed:
		case <-until:
			w.WriteHeader(http.StatusNotModified)
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (c *controller) register(pod string, in placement.Registration) {
	c.change(func(p *placement.Plan) {
		peer := placement.Peer{Pod: pod, Revision: strings.Split(pod, ".")[0], Address: in.Address, Pin: in.Pin}
		var rest []placement.Peer
		for _, one := range p.Peers {
			if one.Pod == pod {
				if !one.Left {
					peer.Restarts = one.Restarts + 1
				}
				continue
			}
			rest = append(rest, one)
		}
		p.Peers = append(rest, peer)
	})
}

func (c *controller) left(in placement.Registration) {
	c.mu.Lock()
	deaf := c.away
	c.mu.Unlock()
	if deaf {
		return
	}
	c.change(func(p *placement.Plan) {
		for i := range p.Peers {
			p.Peers[i].Left = p.Peers[i].Left || p.Peers[i].Pin == in.Pin
		}
	})
}

func (c *controller) change(f func(*placement.Plan)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.plan)
	c.plan.Version++
	close(c.changed)
	c.changed = make(chan struct{})
}

// deaf cuts a pod off from the controller.
func (c *controller) deaf(pod string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = pod
}

// gone is what the API says after a pod has ended.
func (c *controller) gone(pod string) {
	c.change(func(p *placement.Plan) {
		for i := range p.Peers {
			p.Peers[i].Gone = p.Peers[i].Gone || p.Peers[i].Pod == pod
		}
	})
}

// pod is a container with its sidecar.
type pod struct {
	*Sidecar
	name, entry string
	stop        context.CancelFunc
	ended       chan error
}

// fleet is a cluster of pods on loopback addresses.
type fleet struct {
	testing.TB
	controller *controller
	pods       []*pod
	// configure changes the configuration of pods that start.
	configure func(*Config)
}

func newFleet(t testing.TB) *fleet {
	t.Helper()
	return &fleet{TB: t, controller: newController(t), configure: func(*Config) {}}
}

var nextHost = struct {
	sync.Mutex
	n int
}{n: 10}

// newHost returns a loopback address of its own.
func newHost() string {
	nextHost.Lock()
	defer nextHost.Unlock()
	nextHost.n++
	return fmt.Sprintf("127.0.%d.%d", nextHost.n/200, nextHost.n%200+1)
}

// start runs a pod whose container is the handler.
func (f *fleet) start(revision string, application http.Handler) *pod {
	f.Helper()
	host := newHost()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	app := &http.Server{Handler: application, Protocols: protocols, ReadHeaderTimeout: time.Minute}
	at, err := net.Listen("tcp", host+":8080") //nolint:noctx // it lives as long as the test
	if err != nil {
		f.Fatal(err)
	}
	go func() { _ = app.Serve(at) }()
	f.Cleanup(func() { _ = app.Close() })
	return f.startAt(fmt.Sprintf("%s.%d", revision, len(f.pods)), host)
}

// startHeld starts a pod, and sends it a request that lasts until release is called.
func (f *fleet) startHeld() (p *pod, release func()) {
	f.Helper()
	hold := make(chan struct{})
	p = f.start("stable", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		<-hold
	}))
	go func() {
		req, _ := http.NewRequestWithContext(f.Context(), http.MethodGet, p.entry+"/", nil)
		req.Header.Set("X-Key", keyOf(2))
		if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	f.until("a request is open", func() bool { return p.member.Open() == 1 })
	return p, func() { close(hold) }
}

func (f *fleet) startAt(name, host string) *pod {
	f.Helper()
	token := filepath.Join(f.TempDir(), "token")
	if err := os.WriteFile(token, []byte(name), 0o600); err != nil {
		f.Fatal(err)
	}
	c, err := FromEnvironment([]string{
		"STATEFUL_KEY=header:X-Key", "STATEFUL_APPLICATION_PORT=8080", "STATEFUL_POD_IP=" + host,
		"STATEFUL_NAMESPACE=shop", "STATEFUL_SERVICE=cart", "STATEFUL_CONTROLLER_URL=" + f.controller.URL,
		"STATEFUL_TOKEN_FILE=" + token, "STATEFUL_LEASE=1s", "STATEFUL_DRAIN_URL=",
	})
	if err != nil {
		f.Fatal(err)
	}
	c.host, c.linger, c.drainsFor, c.DrainURL = host, 50*time.Millisecond, 0, ""
	c.saidWithin = 200 * time.Millisecond
	c.Placement.Wait, c.Placement.StaleAfter = time.Second, 5*time.Second
	c.Placement.MinBackoff, c.Placement.MaxBackoff = 20*time.Millisecond, 200*time.Millisecond
	c.Placement.Tick = 50 * time.Millisecond
	f.configure(&c)
	level := slog.LevelError
	if os.Getenv("SIDECAR_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	s, err := New(c, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
	if err != nil {
		f.Fatal(err)
	}
	p := &pod{Sidecar: s, name: name, entry: "http://" + net.JoinHostPort(host, "8480"), ended: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	go func() { p.ended <- s.Run(ctx) }()
	f.Cleanup(func() { p.end(f.TB) })
	f.pods = append(f.pods, p)
	f.until("a pod is ready", func() bool {
		w := httptest.NewRecorder()
		s.ready(w, httptest.NewRequestWithContext(f.Context(), http.MethodGet, "/readyz", nil))
		return w.Code == http.StatusOK
	})
	return p
}

// end ends a pod in order.
func (p *pod) end(t testing.TB) {
	t.Helper()
	p.stop()
	select {
	case err := <-p.ended:
		p.ended <- err
	case <-time.After(20 * time.Second):
		t.Error(p.name, "does not end")
	}
}

// together waits until all pods know as many.
func (f *fleet) together(n int) {
	f.Helper()
	f.until("all see each other", func() bool {
		for _, p := range f.pods {
			if others, joined := p.member.Group().Members.Others(); joined && len(others) != n-1 {
				return false
			}
		}
		return true
	})
}

func (f *fleet) until(what string, ok func() bool) {
	f.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.Fatal("not in time: ", what)
		}
	}
}

// enforce gives each shard to a pod by a plan.
func (f *fleet) enforce(owner func(shard int) *pod) {
	f.controller.change(func(p *placement.Plan) {
		p.Mode, p.Members = placement.Enforce, nil
		e := placement.EntityType{Name: "Key", Shards: 100}
		index := map[string]int{}
		for _, peer := range p.Peers {
			if !peer.Gone {
				index[peer.Pod] = len(p.Members)
				p.Members = append(p.Members, placement.PlanMember{Address: peer.Address, Revision: peer.Revision})
				e.Quotas = append(e.Quotas, 0)
			}
		}
		for s := range e.Shards {
			i := index[owner(s).name]
			e.Owners = append(e.Owners, i)
			e.Quotas[i]++
		}
		p.EntityTypes = []placement.EntityType{e}
	})
	f.until("the plan is known", func() bool {
		for _, p := range f.pods {
			if p.member.Joined() && p.member.Group().Poller.Known().Version() < f.controller.version() {
				return false
			}
		}
		return true
	})
}

// hears waits until a pod lists the process that runs in another one now, not one before it at the same address.
func (f *fleet) hears(p, other *pod) {
	f.Helper()
	pin := f.controller.pin(other.name)
	f.until("the restarted process is listed", func() bool { return p.member.Revision(pin) != "" })
}

// pin returns the pin that a pod registered last.
func (c *controller) pin(pod string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.plan.Peers, func(p placement.Peer) bool { return p.Pod == pod })
	return c.plan.Peers[i].Pin
}

func (c *controller) version() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plan.Version
}

// keyOf returns a key of a shard.
func keyOf(shard int) string {
	for i := 0; ; i++ {
		if k := fmt.Sprintf("key-%d", i); placement.ShardOf(k, 100) == shard {
			return k
		}
	}
}

// echo is a container that says who it is and what it got.
type echo struct {
	name string
	mu   sync.Mutex
	got  []http.Header
}

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/.stateful/") {
		http.NotFound(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	e.mu.Lock()
	e.got = append(e.got, r.Header.Clone())
	e.mu.Unlock()
	w.Header().Set("X-Pod", e.name)
	w.Header().Set("Stateful-Elsewhere", "1 forged")
	w.Header().Set("X-Query", r.URL.RawQuery)
	_, _ = fmt.Fprintf(w, "%s %s %s %s", e.name, r.Method, r.URL.EscapedPath(), body) //nolint:gosec // no browser
}

func (e *echo) last() http.Header {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.got[len(e.got)-1]
}

// answered is an answer without its body.
type answered struct {
	StatusCode int
	Header     http.Header
}

func (f *fleet) do(p *pod, method, path, key, body string, headers ...string) (answered, string) {
	f.Helper()
	req, err := http.NewRequestWithContext(f.Context(), method, p.entry+path, bytes.NewReader([]byte(body)))
	if err != nil {
		f.Fatal(err)
	}
	if key != "" {
		req.Header.Set("X-Key", key)
	}
	for pair := range slices.Chunk(headers, 2) {
		req.Header[pair[0]] = []string{pair[1]}
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		f.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		f.Fatal(err)
	}
	return answered{resp.StatusCode, resp.Header}, string(out)
}

// two is a cluster of two pods, whose shards of even and odd numbers belong to the first and the second.
func two(t *testing.T) (f *fleet, a, b *pod, echoes [2]*echo) {
	t.Helper()
	f = newFleet(t)
	echoes = [2]*echo{{name: "a"}, {name: "b"}}
	a, b = f.start("stable", echoes[0]), f.start("canary", echoes[1])
	f.together(2)
	f.enforce(func(s int) *pod { return []*pod{a, b}[s%2] })
	return f, a, b, echoes
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/apps/web"
)

// usual is how long a request takes, so that others of its cart come meanwhile.
const usual = 5 * time.Millisecond

// place is where a request entered, or was handled.
type place struct {
	Revision string `json:"revision"`
	Pod      string `json:"pod"`
}

// answer is the response to a request for a cart.
type answer struct {
	Request string `json:"request"`
	Shard   string `json:"shard,omitempty"`
	Entered place  `json:"entered"`
	// Outcome is "ok", or "error" for a fault of this build, or says which promise was broken.
	Outcome string `json:"outcome"`
	Handled place  `json:"handled"`
}

type carts struct {
	self     place
	locks    string
	failRate float64

	mu sync.Mutex
	// busy has a mutex for each cart, as an application has that keeps it in memory. epochs has the last one of each
	// shard.
	busy   map[string]*sync.Mutex
	epochs map[string]string
	// shards are those that this pod has, with what gives their locks back.
	shards map[int]func() error
}

func newCarts(self place, locks string, failRate float64) *carts {
	return &carts{
		self: self, locks: locks, failRate: failRate,
		busy: map[string]*sync.Mutex{}, epochs: map[string]string{}, shards: map[int]func() error{},
	}
}

func (c *carts) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /cart/{id}", c.serve)
	mux.HandleFunc("POST /cart/{id}", c.serve)
	mux.HandleFunc("POST /events", c.event)
	mux.HandleFunc("POST /.stateful/acquire", c.hook(c.acquire))
	mux.HandleFunc("POST /.stateful/release", c.hook(c.release))
	return mux
}

// serve handles a request for a cart. With ?for=DURATION, it takes that long.
func (c *carts) serve(w http.ResponseWriter, r *http.Request) {
	a := answer{
		Request: r.Header.Get("X-Request-Id"), Shard: r.Header.Get("Stateful-Shard"), Handled: c.self,
		Entered: place{Revision: r.Header.Get("Stateful-Entry-Revision")}, Outcome: "ok",
	}
	if err := c.handle(r, r.PathValue("id")); err != nil {
		a.Outcome = err.Error()
	} else if web.Draw(a.Request) < c.failRate {
		a.Outcome = "error"
	}
	w.Header().Set("Content-Type", "application/json")
	if a.Outcome != "ok" {
		w.WriteHeader(http.StatusInternalServerError)
	}
	_ = json.NewEncoder(w).Encode(a) // ignore a client that has disconnected
}

// event handles a CloudEvent whose subject is a cart. It answers without a body: a Broker would take that for an event.
func (c *carts) event(w http.ResponseWriter, r *http.Request) {
	if err := c.handle(r, r.Header.Get("Ce-Subject")); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func (c *carts) handle(r *http.Request, cart string) error {
	takes := usual
	if given := r.URL.Query().Get("for"); given != "" {
		var err error
		if takes, err = time.ParseDuration(given); err != nil {
			return fmt.Errorf("for=%s: %w", given, err)
		}
	}
	if key, err := url.PathUnescape(r.Header.Get("Stateful-Key")); err != nil || key != cart {
		return fmt.Errorf("the key of cart %s is %q", cart, r.Header.Get("Stateful-Key"))
	}
	busy, err := c.enter(r.Context(), cart, r.Header.Get("Stateful-Shard"), r.Header.Get("Stateful-Epoch"))
	if err != nil {
		return err
	}
	busy.Lock()
	defer busy.Unlock()
	unlock, err := c.lock(r.Context(), cart)
	if err != nil {
		return err
	}
	time.Sleep(takes)
	return unlock()
}

// enter returns what guards a cart. A container that was restarted learns by requests which shards it has.
func (c *carts) enter(ctx context.Context, cart, shard, epoch string) (*sync.Mutex, error) {
	var number int
	if _, err := fmt.Sscan(shard, &number); err != nil {
		return nil, fmt.Errorf("the shard is %q: %w", shard, err)
	}
	if err := c.acquire(ctx, number); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// All have as many digits.
	if epoch == "" || epoch < c.epochs[shard] {
		return nil, fmt.Errorf("the epoch of shard %q is %q after %q", shard, epoch, c.epochs[shard])
	}
	c.epochs[shard] = epoch
	if c.busy[cart] == nil {
		c.busy[cart] = &sync.Mutex{}
	}
	return c.busy[cart], nil
}

// hook serves a request of the sidecar itself.
func (*carts) hook(do func(ctx context.Context, shard int) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Shard *int }
		err := json.NewDecoder(r.Body).Decode(&in)
		if err == nil && (in.Shard == nil || r.Header.Get("Stateful-Hook") == "") {
			err = fmt.Errorf("this is not a hook: %v", r.Header)
		}
		if err == nil {
			err = do(r.Context(), *in.Shard)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
}

// acquire holds a lock of a shard until it is released. A sidecar that was restarted announces its shards anew.
func (c *carts) acquire(ctx context.Context, shard int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shards[shard] != nil {
		return nil
	}
	unlock, err := c.lock(ctx, fmt.Sprintf("shard-%d", shard))
	if err == nil {
		c.shards[shard] = unlock
	}
	return err
}

func (c *carts) release(_ context.Context, shard int) error {
	c.mu.Lock()
	unlock := c.shards[shard]
	delete(c.shards, shard)
	c.mu.Unlock()
	if unlock == nil {
		return nil // this container has not seen it
	}
	return unlock()
}

// lockWithin bounds each exchange with the program.
const lockWithin = 5 * time.Second

// lock holds a lock until unlock is called, or this process ends. Without a name, it only connects.
func (c *carts) lock(ctx context.Context, name string) (unlock func() error, err error) {
	if c.locks == "" {
		return func() error { return nil }, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lockWithin)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.locks)
	if err != nil {
		return nil, fmt.Errorf("connecting to LOCKS=%s: %w", c.locks, err)
	}
	tcp := conn.(*net.TCPConn) //nolint:errcheck // it was dialed
	within := func() { _ = tcp.SetDeadline(time.Now().Add(lockWithin)) }
	within()
	query := url.Values{"pod": {c.self.Pod}, "lock": {name}}.Encode()
	_, err = fmt.Fprintf(tcp, "POST /hold?%s HTTP/1.1\r\nHost: locks\r\nContent-Length: 0\r\n\r\n", query)
	var resp *http.Response
	if err == nil {
		resp, err = http.ReadResponse(bufio.NewReader(tcp), nil) //nolint:bodyclose // it is the connection
	}
	if err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
		err = fmt.Errorf("the answer is %s", resp.Status)
	}
	if err != nil {
		_ = tcp.Close()
		return nil, fmt.Errorf("taking lock %q: %w", name, err)
	}
	return func() error {
		defer func() { _ = tcp.Close() }() // the program has heard it
		within()
		if err := tcp.CloseWrite(); err != nil {
			return fmt.Errorf("giving lock %q back: %w", name, err)
		}
		if _, err := io.Copy(io.Discard, tcp); err != nil {
			return fmt.Errorf("giving lock %q back: %w", name, err)
		}
		return nil
	}, nil
}

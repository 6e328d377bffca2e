// SPDX-License-Identifier: Apache-2.0

package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// The scraped ports of a pod: the application's own, and queue-proxy's.
const (
	applicationPort = 9095
	queueProxyPort  = 9091
)

// podNet is the range of the pods' addresses, which RFC 2544 reserves for benchmarks.
var podNet = netip.MustParsePrefix("198.18.0.0/22")

// port is one scraped port, with its metrics and its readers.
type port struct {
	*exposition
	address string
	// perSecond is the rate of the pod's requests.
	perSecond float64

	mu sync.Mutex
	by map[string]*readings // by program
}

// readings are one program's scrapes of one port.
type readings struct {
	at []time.Time
	// first and last are the values of truth in its first and last scrape.
	first, last float64
}

// pods serves the metrics of all pods, each on an address of its own with the ports of a real pod. It records who
// scraped what, and how often.
type pods struct {
	server *http.Server
	ports  map[string]*port
	began  time.Time
	// unroute removes the addresses, if this program added them.
	unroute func() error

	mu     sync.Mutex
	frozen time.Time
}

func newPods(ctx context.Context) (*pods, error) {
	p := &pods{ports: map[string]*port{}, began: time.Now(), unroute: func() error { return nil }}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(podAddress(0), "0"))
	if err == nil {
		return p, l.Close() // the machine already has such addresses
	}
	route := []string{"route", "add", "local", podNet.String(), "dev", "lo"}
	if out, err := exec.CommandContext(ctx, "ip", route...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("pods need addresses of their own; as root: ip %s: %w: %s", strings.Join(route, " "), err, out)
	}
	p.unroute = func() error {
		route[1] = "del"
		if out, err := exec.CommandContext(context.WithoutCancel(ctx), "ip", route...).CombinedOutput(); err != nil {
			return fmt.Errorf("removing the addresses of pods: ip %s: %w: %s", strings.Join(route, " "), err, out)
		}
		return nil
	}
	return p, nil
}

func podAddress(pod int) string {
	a := podNet.Addr().As4()
	a[2] += byte(pod / 250)  //nolint:gosec // fewer pods than addresses
	a[3] = byte(pod%250) + 1 //nolint:gosec // below 251
	return netip.AddrFrom4(a).String()
}

// grow opens the ports of more pods, up to that number.
func (p *pods) grow(ctx context.Context, pods int) error {
	for pod := len(p.ports) / 2; pod < pods; pod++ {
		ip := podAddress(pod)
		for n, e := range map[int]*exposition{applicationPort: application(pod), queueProxyPort: queueProxy(ip)} {
			address := net.JoinHostPort(ip, fmt.Sprint(n))
			l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
			if err != nil {
				return fmt.Errorf("listening as pod %d: %w", pod, err)
			}
			p.mu.Lock()
			p.ports[address] = &port{exposition: e, address: address, perSecond: 10 + float64(pod%20), by: map[string]*readings{}}
			p.mu.Unlock()
			go func() {
				// If it ends early, scrapes are missed, and counted as missed.
				_ = p.server.Serve(l)
			}()
		}
	}
	return nil
}

var zippers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// ServeHTTP responds like Prometheus' client library, compressed if the client accepts it.
func (p *pods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		http.Error(w, "unknown address", http.StatusInternalServerError)
		return
	}
	p.mu.Lock()
	port := p.ports[local.String()]
	if !p.frozen.IsZero() {
		at = p.frozen
	}
	p.mu.Unlock()
	if port == nil || r.URL.Path != "/metrics" {
		http.NotFound(w, r)
		return
	}
	requests := uint64(at.Sub(p.began).Seconds() * port.perSecond)
	body := port.text(make([]byte, 0, 64<<10), requests)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	if err := send(w, r, body); err != nil {
		return // the client did not receive it
	}
	program, _, _ := strings.Cut(r.UserAgent(), "/")
	port.note(program, time.Now(), port.truth(requests))
}

func send(w http.ResponseWriter, r *http.Request, body []byte) error {
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_, err := w.Write(body)
		return err //nolint:wrapcheck // the caller only checks for an error
	}
	w.Header().Set("Content-Encoding", "gzip")
	z, ok := zippers.Get().(*gzip.Writer)
	if !ok {
		return errors.New("the pool contains another type")
	}
	defer zippers.Put(z)
	z.Reset(w)
	_, err := z.Write(body)
	return errors.Join(err, z.Close())
}

func (p *port) note(program string, at time.Time, truth float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.by[program]
	if r == nil {
		r = &readings{first: truth}
		p.by[program] = r
	}
	r.at, r.last = append(r.at, at), truth
}

// freeze stops all counters, and returns when.
func (p *pods) freeze() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = time.Now()
	return p.frozen
}

// thaw starts all counters again, and deletes the readings.
func (p *pods) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = time.Time{}
	for _, port := range p.ports {
		port.mu.Lock()
		port.by = map[string]*readings{}
		port.mu.Unlock()
	}
}

// each calls f with a program's readings of every port; nil for none.
func (p *pods) each(program string, f func(*port, *readings)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, port := range p.ports {
		port.mu.Lock()
		f(port, port.by[program])
		port.mu.Unlock()
	}
}

// least returns the number of a program's scrapes since then of its least scraped port.
func (p *pods) least(program string, since time.Time) int {
	least := math.MaxInt
	p.each(program, func(_ *port, r *readings) {
		n := 0
		if r != nil {
			for i := len(r.at) - 1; i >= 0 && r.at[i].After(since); i-- {
				n++
			}
		}
		least = min(least, n)
	})
	return least
}

// exposed returns the handled requests in a program's scrapes: since its first ones, and in total.
func (p *pods) exposed(program string) (since, all float64) {
	p.each(program, func(_ *port, r *readings) {
		if r != nil {
			since, all = since+r.last-r.first, all+r.last
		}
	})
	return since, all
}

// read counts a program's scrapes between two times, and the missed ones.
func (p *pods) read(program string, from, to time.Time, interval time.Duration) (read, missed int) {
	p.each(program, func(_ *port, r *readings) {
		if r == nil {
			missed += int(to.Sub(from) / interval)
			return
		}
		n, gone := during(r.at, from, to, interval)
		read, missed = read+n, missed+gone
	})
	return read, missed
}

// during counts scrapes between two times, and the missed ones. A scrape that is more than half an interval late counts
// as missed.
func during(at []time.Time, from, to time.Time, interval time.Duration) (read, missed int) {
	gap := func(a, b time.Time) int {
		return max(0, int(math.Round(float64(b.Sub(a))/float64(interval)))-1)
	}
	last := from
	for _, t := range at {
		switch {
		case !t.After(from):
			last = t
		case !t.After(to):
			read, missed, last = read+1, missed+gap(last, t), t
		}
	}
	return read, missed + gap(last, to)
}

func (p *pods) close() error {
	err := p.server.Close()
	if errors.Is(err, os.ErrClosed) {
		err = nil
	}
	return errors.Join(err, p.unroute())
}

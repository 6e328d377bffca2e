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

// The ports of a pod that are read: the application's own, and queue-proxy's.
const (
	applicationPort = 9095
	queueProxyPort  = 9091
)

// podNet is where pods have their addresses: the range that RFC 2544 keeps for benchmarks.
var podNet = netip.MustParsePrefix("198.18.0.0/22")

// port is one that is read, with what it has to tell and who has read it.
type port struct {
	*exposition
	address string
	// perSecond is how many requests the pod gets.
	perSecond float64

	mu sync.Mutex
	by map[string]*readings // by program
}

// readings of one port by one program.
type readings struct {
	at []time.Time
	// first and last are the truth as it was told.
	first, last float64
}

// pods is all of them in one server: on addresses of their own, whose ports answer as those of real pods do. It is the
// witness of who read what, and how often.
type pods struct {
	server *http.Server
	ports  map[string]*port
	began  time.Time
	// unroute takes the addresses away again, if this program has brought them.
	unroute func() error

	mu     sync.Mutex
	frozen time.Time
}

func newPods(ctx context.Context) (*pods, error) {
	p := &pods{ports: map[string]*port{}, began: time.Now(), unroute: func() error { return nil }}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(podAddress(0), "0"))
	if err == nil {
		return p, l.Close() // the machine has such addresses
	}
	route := []string{"route", "add", "local", podNet.String(), "dev", "lo"}
	if out, err := exec.CommandContext(ctx, "ip", route...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("pods need addresses of their own; as root: ip %s: %w: %s", strings.Join(route, " "), err, out)
	}
	p.unroute = func() error {
		route[1] = "del"
		if out, err := exec.CommandContext(context.WithoutCancel(ctx), "ip", route...).CombinedOutput(); err != nil {
			return fmt.Errorf("taking the addresses of pods away: ip %s: %w: %s", strings.Join(route, " "), err, out)
		}
		return nil
	}
	return p, nil
}

func podAddress(pod int) string {
	a := podNet.Addr().As4()
	a[2] += byte(pod / 250)  //nolint:gosec // there are fewer than the range has
	a[3] = byte(pod%250) + 1 //nolint:gosec // below 251
	return netip.AddrFrom4(a).String()
}

// grow makes the ports of so many pods answer.
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
				// Should it end early, readings are missed, and counted as such.
				_ = p.server.Serve(l)
			}()
		}
	}
	return nil
}

var zippers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// ServeHTTP answers as the library of Prometheus does, packed for who can unpack.
func (p *pods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		http.Error(w, "the address that was asked is not known", http.StatusInternalServerError)
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
		return // nobody has read it
	}
	program, _, _ := strings.Cut(r.UserAgent(), "/")
	port.note(program, time.Now(), port.truth(requests))
}

func send(w http.ResponseWriter, r *http.Request, body []byte) error {
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_, err := w.Write(body)
		return err //nolint:wrapcheck // only whether there is one is asked
	}
	w.Header().Set("Content-Encoding", "gzip")
	z, ok := zippers.Get().(*gzip.Writer)
	if !ok {
		return errors.New("the pool has something else")
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

// freeze stops all counters, and says when.
func (p *pods) freeze() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = time.Now()
	return p.frozen
}

// thaw lets counters go on, and forgets who read them.
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

// each calls f with what a program has read of every port; nil where that is nothing.
func (p *pods) each(program string, f func(*port, *readings)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, port := range p.ports {
		port.mu.Lock()
		f(port, port.by[program])
		port.mu.Unlock()
	}
}

// least is how often a program has read the port since then that it has read least.
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

// told is what a program was told of handled requests: since its first readings, and in all.
func (p *pods) told(program string) (since, all float64) {
	p.each(program, func(_ *port, r *readings) {
		if r != nil {
			since, all = since+r.last-r.first, all+r.last
		}
	})
	return since, all
}

// read counts a program's readings between two moments, and those that it has missed.
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

// during counts readings between two moments, and those that are missing: one that came more than half an interval
// late is one that is missing.
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

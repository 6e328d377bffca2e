// SPDX-License-Identifier: Apache-2.0

package doorbell

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"time"
)

// Config of a doorbell.
type Config struct {
	// API is the API server, Core the core that is rung.
	API, Core Access
	// Namespace is the controller's: that of CDEventSubjects and of the Lease.
	Namespace string
	// Lease is the name of the Lease that stores what is answered.
	Lease string
	// SweepEvery is the time between two sweeps, apart from those after a list.
	SweepEvery time.Duration
	// RingWithin limits how long a ring waits for its answer. The core may have to be started for it.
	RingWithin time.Duration
	// Parallel is how many rings may be under way at once, MostWaiting how many keys may wait for one.
	Parallel, MostWaiting int
	// StoreEvery is the least time between two writes to the Lease.
	StoreEvery time.Duration
	// AbsentFor is after what time a kind is looked for again that is not installed.
	AbsentFor time.Duration
}

// Defaults are the settings for everything that depends on no installation.
var Defaults = Config{
	Lease: "doorbell", SweepEvery: 10 * time.Minute, RingWithin: time.Minute, Parallel: 4, MostWaiting: 1024,
	StoreEvery: time.Minute, AbsentFor: 30 * time.Second,
}

// check returns what is wrong.
func (c Config) check() error {
	for what, address := range map[string]string{"core": c.Core.URL, "API server": c.API.URL} {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("the address of the %s is %q; it must be an absolute URL, such as https://core.example.com", what, address)
		}
	}
	if c.Namespace == "" {
		return fmt.Errorf("the namespace of the controller is not set; set SYSTEM_NAMESPACE to it, or --namespace")
	}
	for what, d := range map[string]time.Duration{"sweep-interval": c.SweepEvery, "ring-timeout": c.RingWithin} {
		if d < time.Second {
			return fmt.Errorf("--%s is %v; it must be at least 1s", what, d)
		}
	}
	if c.Parallel < 1 || c.MostWaiting < 1 {
		return fmt.Errorf("--parallel is %d and --most-waiting %d; both must be at least 1", c.Parallel, c.MostWaiting)
	}
	return nil
}

// Doorbell rings the core.
type Doorbell struct {
	config   Config
	log      *slog.Logger
	ringer   *ringer
	wakes    *wakes
	book     *book
	watchers []*watcher
}

// New returns a doorbell that Run starts.
func New(c Config, log *slog.Logger) (*Doorbell, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	d := &Doorbell{config: c, log: log, wakes: newWakes(c.Namespace, c.SweepEvery, log)}
	kinds := watches(c.Namespace, d.wakes)
	// Without HTTP/2, each watch has a connection, and needs another one to list.
	api, err := newClient(c.API, 2*len(kinds)+1)
	if err != nil {
		return nil, err
	}
	core, err := newClient(c.Core, c.Parallel)
	if err != nil {
		return nil, err
	}
	b := &bell{core: core, source: api.URL, within: c.RingWithin}
	d.ringer = newRinger(c.Parallel, c.MostWaiting, log, b.ring)
	d.book = &book{
		api: api, namespace: c.Namespace, name: c.Lease, holder: holder(), ringer: d.ringer, every: c.StoreEvery, log: log,
	}
	for _, k := range kinds {
		resource := k.String()
		d.watchers = append(d.watchers, &watcher{
			Watch: k, api: api, ring: d.ringer.Ring, absentFor: c.AbsentFor, pageSize: listAtOnce,
			startWithin: listWithin, log: log, moved: func(version string) { d.book.move(resource, version) },
		})
	}
	return d, nil
}

// holder names this process: in a pod, by the pod.
func holder() string {
	name, err := os.Hostname()
	if err != nil {
		return "doorbell"
	}
	return name
}

// Run watches and rings until the context ends, and stores at the end what is answered.
func (d *Doorbell) Run(ctx context.Context) {
	known, err := d.load(ctx)
	if err != nil {
		return // the context has ended
	}
	var all sync.WaitGroup
	for _, w := range d.watchers {
		w.position = known[w.String()]
		all.Go(func() { w.run(ctx) })
	}
	all.Go(func() { d.wakes.run(ctx, d.ringer.Ring) })
	all.Go(func() { d.sweep(ctx) })
	all.Go(func() { d.ringer.Run(ctx) })
	all.Go(func() { d.book.run(ctx) })
	all.Wait()
	d.book.last(ctx)
}

// load returns what is answered according to earlier processes. An API server that cannot be reached is tried again,
// because nothing else works without it either.
func (d *Doorbell) load(ctx context.Context) (positions, error) {
	for failures := 1; ; failures++ {
		known, err := d.book.load(ctx)
		if err == nil {
			return known, nil
		}
		d.log.Warn("What is answered cannot be read, and is tried again", "error", err)
		if err := sleep(ctx, max(backoff(failures, lastRetry), retryAfter(err))); err != nil {
			return nil, err
		}
	}
}

// sweep rings the sweep at once and then regularly.
func (d *Doorbell) sweep(ctx context.Context) {
	for {
		// It fails only if the context ends.
		_ = d.ringer.Ring(ctx, Sweep, Updated)
		if sleep(ctx, d.config.SweepEvery) != nil {
			return
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package scrape

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape/limits"
)

// dyingEvery is the interval between readings of a pod that is being deleted.
const dyingEvery = time.Second

// atOnce limits the concurrent readings of a process.
const atOnce = 128

// How often all Services of a Discovery are compared with those that are read: often if that is the only way to
// notice a change, and rarely if the Discovery is Watched.
const (
	sweepEvery   = time.Second
	recheckEvery = time.Minute
)

// Discovery tells what to read.
type Discovery interface {
	// Ready is false until everything is known.
	Ready() bool
	// Services returns all existing Services, whichever replica leads them, with or without pods: a
	// Service that is scaled to zero keeps its counts.
	Services() []types.NamespacedName
	// Targets of one Service.
	Targets(ctx context.Context, service types.NamespacedName) []Target
	// Dying returns the targets whose pods are being deleted. It is called every second while there are some.
	Dying(ctx context.Context, service types.NamespacedName) []Target
}

// Watched is a Discovery whose owner reports every change with Runner.Changed and Runner.AllChanged. Services without
// pods are then not looked at. Any other Discovery is looked at every second.
type Watched interface {
	Discovery
	// Exists reports whether Services returns the Service.
	Exists(service types.NamespacedName) bool
	// HasPods reports whether any pod claims to belong to the Service, even if it cannot be read yet.
	HasPods(service types.NamespacedName) bool
	// HasDying reports whether one of them is being deleted.
	HasDying(service types.NamespacedName) bool
}

// Sink takes the readings. Only one goroutine at a time calls it for a Service.
type Sink interface {
	// Begin starts reading the Service. fresh means that it was created while the runner ran, so its
	// pods are new too.
	Begin(service types.NamespacedName, fresh bool)
	// Read takes the readings of all its targets, possibly none, or only of those that are being
	// deleted.
	Read(service types.NamespacedName, all []Reading)
	// End stops reading the Service in this process.
	End(service types.NamespacedName)
}

// Leader says what this process leads for.
type Leader interface {
	IsLeaderFor(service types.NamespacedName) bool
}

// Configured has the settings in effect.
type Configured interface {
	Scraping() Settings
}

// Settings that may change while the runner runs.
type Settings struct {
	// Interval between readings.
	Interval time.Duration
	Limits   limits.Reading
	// Reader for a runtime, Entry for queue-proxy.
	Reader func(runtime string) *mapping.Reader
	Entry  *mapping.Reader
}

func (s Settings) reader(t Target) *mapping.Reader {
	if t.Entry {
		return s.Entry
	}
	return s.Reader(t.Runtime)
}

// Runner reads every Service that this process leads, from its first pod to its last, each at its own offset.
type Runner struct {
	Client    *Client
	Discovery Discovery
	Sink      Sink
	Leader    Leader
	Settings  Configured
	// Budget of all Services.
	Budget *Budget

	changes changes
	slots   chan struct{}
	wait    sync.WaitGroup

	// The rest belongs to the goroutine of Run.

	// services holds all existing Services, and agenda those that are due at some time.
	services map[types.NamespacedName]*served
	agenda   agenda
	// ending holds what is closed when the last reading of a Service that was stopped has ended.
	ending map[types.NamespacedName]chan struct{}
	// passed means that Services that are not known yet are new.
	passed bool
	// swept is when all Services were last compared.
	swept time.Time
}

// Changed reports that a Service appeared or disappeared, or that one of its pods did or changed. It does not block.
func (r *Runner) Changed(service types.NamespacedName) { r.changes.add(service) }

// AllChanged reports that this process leads other Services than before. It does not block.
func (r *Runner) AllChanged() { r.changes.addAll() }

// Run returns after the context ends and all readings have finished.
func (r *Runner) Run(ctx context.Context) {
	r.slots = make(chan struct{}, atOnce)
	r.services, r.ending = map[types.NamespacedName]*served{}, map[types.NamespacedName]chan struct{}{}
	defer r.wait.Wait()
	defer r.stopAll()
	for {
		pause := r.follow(ctx, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-r.changes.came():
		case <-time.After(pause):
		}
	}
}

// follow takes over what has changed, and starts what is due. It returns for how long nothing will be.
func (r *Runner) follow(ctx context.Context, now time.Time) time.Duration {
	if !r.Discovery.Ready() {
		// Services that appear when the Discovery becomes ready are not new; they were just unknown.
		r.passed = false
		return sweepEvery
	}
	every := sweepEvery
	if _, watched := r.Discovery.(Watched); watched {
		every = recheckEvery
	}
	switch some, all := r.changes.take(); {
	case all || !r.passed || now.Sub(r.swept) >= every:
		r.swept = now
		r.sweep(ctx, now, all || !r.passed || every == sweepEvery)
	default:
		for key := range some {
			r.look(ctx, key, now)
		}
	}
	for len(r.agenda) > 0 && !r.agenda[0].at().After(now) {
		r.start(ctx, r.agenda[0], now)
	}
	pause := every - now.Sub(r.swept)
	if len(r.agenda) > 0 {
		pause = min(pause, r.agenda[0].at().Sub(now))
	}
	return max(0, pause)
}

// sweep looks at all Services, or only at those that are new and those that have pods: with many Services, finding
// out who leads for each takes most of the time.
func (r *Runner) sweep(ctx context.Context, now time.Time, all bool) {
	seen := make(map[types.NamespacedName]bool, len(r.services))
	for _, key := range r.Discovery.Services() {
		seen[key] = true
		if s := r.services[key]; all || s == nil || s.loop != nil && r.awake(s) {
			r.exists(ctx, key, now)
		}
	}
	for key := range r.services {
		if !seen[key] {
			r.gone(key)
		}
	}
	r.passed = true
	r.forgetEnded()
}

// look looks at one Service. Only a sweep finds out what else a Discovery has that is not Watched.
func (r *Runner) look(ctx context.Context, key types.NamespacedName, now time.Time) {
	discovery, watched := r.Discovery.(Watched)
	switch {
	case watched && !discovery.Exists(key):
		r.gone(key)
	case watched || r.services[key] != nil:
		r.exists(ctx, key, now)
	}
}

// exists starts or stops reading a Service, as this process leads for it or not, and looks for pods that are being
// deleted.
func (r *Runner) exists(ctx context.Context, key types.NamespacedName, now time.Time) {
	s, old := r.services[key]
	if !old {
		s = &served{key: key, place: -1}
		r.services[key] = s
	}
	switch leads := r.Leader.IsLeaderFor(key); {
	case leads && s.loop == nil:
		r.begin(ctx, s, r.passed && !old)
	case leads:
		if s.loop.begun.Load() && (r.awake(s) || s.unread) {
			s.unread = false
			s.wake(now, r.Settings.Scraping().Interval)
			r.agenda.put(s)
		}
	case s.loop != nil:
		r.stop(s)
	}
}

// awake reports whether the Service is to be read: while it has pods, and once more after that.
func (r *Runner) awake(s *served) bool {
	discovery, watched := r.Discovery.(Watched)
	return s.place >= 0 || !watched || discovery.HasPods(s.key)
}

func (r *Runner) gone(key types.NamespacedName) {
	if s := r.services[key]; s != nil {
		r.stop(s)
		delete(r.services, key)
	}
}

// begin starts with a Service. If it has no pods, nothing has to wait for the API server.
func (r *Runner) begin(ctx context.Context, s *served, fresh bool) {
	previous := r.ending[s.key]
	loop := &serviceLoop{runner: r, key: s.key}
	s.loop = loop
	if previous == nil && !r.awake(s) {
		loop.begin(fresh)
		if s.unread = r.awake(s); s.unread { // a pod came just now
			r.Changed(s.key)
		}
		return
	}
	s.unread = true // what Begin learns of the pods may be outdated when it has ended
	loop.use(ctx)
	loop.batches.Go(func() {
		if previous != nil {
			<-previous
		}
		// Targets finds the pods of the Service. Begin then records the existing ones as pods that have
		// counted before.
		r.Discovery.Targets(loop.ctx, s.key)
		loop.begin(fresh)
		r.Changed(s.key)
	})
}

// start starts a reading that is due.
func (r *Runner) start(ctx context.Context, s *served, now time.Time) {
	settings, loop, due := r.Settings.Scraping(), s.loop, s.due
	loop.use(ctx)
	if due.After(now) {
		s.dying, s.looked = time.Time{}, now
		r.agenda.put(s)
		loop.batches.Go(func() { loop.readDying(settings, due) })
		return
	}
	if discovery, watched := r.Discovery.(Watched); watched && !discovery.HasPods(s.key) && !loop.planning.Load() {
		r.agenda.remove(s) // this is the last reading
	} else {
		s.due = next(now, settings.Interval, s.key)
		r.agenda.put(s)
	}
	loop.batches.Go(func() { loop.readAll(settings) })
}

// stop stops reading a Service.
func (r *Runner) stop(s *served) {
	loop := s.loop
	if s.loop = nil; loop == nil {
		return
	}
	r.agenda.remove(s)
	if loop.ctx == nil { // it was never read
		r.Sink.End(s.key)
		return
	}
	loop.cancel()
	ended := make(chan struct{})
	r.ending[s.key] = ended
	r.wait.Go(func() {
		defer close(ended)
		loop.end()
	})
}

// forgetEnded forgets what was stopped and has ended.
func (r *Runner) forgetEnded() {
	maps.DeleteFunc(r.ending, func(_ types.NamespacedName, ended chan struct{}) bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
}

func (r *Runner) stopAll() {
	for _, s := range r.services {
		r.stop(s)
	}
}

package scrape

import (
	"context"
	"hash/fnv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// dyingEvery is the interval between readings of a pod that is being deleted.
const dyingEvery = time.Second

// atOnce limits the concurrent readings of a process.
const atOnce = 128

// Plan tells what to read.
type Plan interface {
	// Ready is false until everything is known.
	Ready() bool
	// Services returns all existing Services, whichever replica leads them, with or without pods: a
	// Service that is scaled to zero keeps its counts.
	Services() []types.NamespacedName
	// Targets of one Service.
	Targets(ctx context.Context, service types.NamespacedName) []Target
	// Dying returns the targets whose pods are being deleted. It is called every second.
	Dying(ctx context.Context, service types.NamespacedName) []Target
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

// Settings that may change while the runner runs.
type Settings struct {
	// Interval between readings.
	Interval time.Duration
	Limits   Limits
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

// Runner reads every Service that this process leads, each at its own offset.
type Runner struct {
	Client   *Client
	Plan     Plan
	Sink     Sink
	Leads    func(types.NamespacedName) bool
	Settings func() Settings
	// Budget of all Services.
	Budget *Budget

	slots   chan struct{}
	running map[types.NamespacedName]context.CancelFunc
	// known holds the Services that existed before.
	known  map[types.NamespacedName]bool
	passed bool
	wait   sync.WaitGroup
}

// Run returns after the context ends and all readings have finished.
func (r *Runner) Run(ctx context.Context) {
	r.slots = make(chan struct{}, atOnce)
	r.running = map[types.NamespacedName]context.CancelFunc{}
	r.known = map[types.NamespacedName]bool{}
	defer r.wait.Wait()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		r.follow(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// follow starts and stops reading as Services are created, deleted and change their leader.
func (r *Runner) follow(ctx context.Context) {
	if !r.Plan.Ready() {
		// Services that appear when the plan becomes ready are not new; they were just unknown.
		r.passed = false
		return
	}
	seen := map[types.NamespacedName]bool{}
	for _, key := range r.Plan.Services() {
		seen[key] = true
		_, old := r.known[key]
		r.known[key] = true
		stop, runs := r.running[key]
		switch leads := r.Leads(key); {
		case leads && !runs:
			own, cancel := context.WithCancel(ctx) //nolint:gosec // called when the Service goes or changes hands
			r.running[key] = cancel
			fresh := r.passed && !old
			r.wait.Go(func() { r.service(own, key, fresh) })
		case !leads && runs:
			stop()
			delete(r.running, key)
		}
	}
	for key, stop := range r.running {
		if !seen[key] {
			stop()
			delete(r.running, key)
		}
	}
	for key := range r.known {
		if !seen[key] {
			delete(r.known, key)
		}
	}
	r.passed = true
}

// service reads the pods of one Service until it is stopped.
func (r *Runner) service(ctx context.Context, key types.NamespacedName, fresh bool) {
	// Targets finds the pods of the Service. Begin then records the existing ones as pods that have
	// counted before.
	r.Plan.Targets(ctx, key)
	r.Sink.Begin(key, fresh)
	defer r.Sink.End(key)
	var batches sync.WaitGroup
	defer batches.Wait()
	var mu sync.Mutex // guards the sink and what is being read
	busy := map[Target]bool{}
	memories, share := map[Target]*Memory{}, r.Budget.Share()
	defer func() { forget(memories, nil) }()
	begin := func(all []Target, s Settings) {
		mu.Lock()
		var free []Target
		var known []*Memory
		for _, t := range all {
			if id := identity(t); !busy[id] {
				busy[id] = true
				free = append(free, t)
				reader := s.reader(t)
				if m := memories[id]; m == nil || m.reader != reader {
					if m != nil {
						m.release()
					}
					memories[id] = newMemory(reader, share)
				}
				known = append(known, memories[id])
			}
		}
		mu.Unlock()
		if len(free) == 0 && len(all) > 0 {
			return
		}
		batches.Go(func() {
			readings := r.batch(ctx, free, known, s)
			mu.Lock()
			defer mu.Unlock()
			for _, t := range free {
				delete(busy, identity(t))
			}
			if ctx.Err() == nil {
				r.Sink.Read(key, readings)
			}
		})
	}
	for {
		s := r.Settings()
		due := next(time.Now(), s.Interval, key)
		for {
			pause := min(time.Until(due), dyingEvery)
			if pause <= 0 {
				break
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			if dying := r.Plan.Dying(ctx, key); len(dying) > 0 && time.Now().Before(due) {
				quick := s
				quick.Limits.Timeout = min(s.Limits.Timeout, dyingEvery)
				begin(dying, quick)
			}
		}
		all := r.Plan.Targets(ctx, key)
		begin(all, s)
		mu.Lock()
		forget(memories, all)
		mu.Unlock()
	}
}

// forget drops the memories of removed targets.
func forget(memories map[Target]*Memory, all []Target) {
	there := make(map[Target]bool, len(all))
	for _, t := range all {
		there[identity(t)] = true
	}
	for id, m := range memories {
		if !there[id] {
			m.release()
			delete(memories, id)
		}
	}
}

// identity is the part of a target that must not be read twice at the same time.
func identity(t Target) Target { return Target{Pod: t.Pod, Entry: t.Entry} }

// batch reads targets concurrently, and returns when all have answered.
func (r *Runner) batch(ctx context.Context, targets []Target, memories []*Memory, s Settings) []Reading {
	out := make([]Reading, len(targets))
	var wait sync.WaitGroup
	for i, t := range targets {
		r.slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-r.slots }()
			out[i] = r.Client.Read(ctx, t, s.Limits, memories[i])
		})
	}
	wait.Wait()
	return out
}

// next returns when a Service is due. Its name decides the offset in every interval, so Services are
// spread out, and neither a restart nor another replica changes the time.
func next(now time.Time, interval time.Duration, key types.NamespacedName) time.Time {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key.String()))                  // a hash never fails
	offset := time.Duration(h.Sum64() % uint64(interval)) //nolint:gosec // both are positive
	due := now.Truncate(interval).Add(offset)
	for !due.After(now) {
		due = due.Add(interval)
	}
	return due
}

package scrape

import (
	"context"
	"hash/fnv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// dyingEvery is how often a pod is read that is being deleted.
const dyingEvery = time.Second

// atOnce bounds the readings of a process at one moment.
const atOnce = 128

// Plan says what there is to read.
type Plan interface {
	// Ready is false as long as not everything is known.
	Ready() bool
	// Services that exist, whoever leads them, with pods or without: one that is
	// scaled to zero keeps what was counted.
	Services() []types.NamespacedName
	// Targets of one Service.
	Targets(ctx context.Context, service types.NamespacedName) []Target
	// Dying are those of them whose pods are being deleted: it is asked every second.
	Dying(ctx context.Context, service types.NamespacedName) []Target
}

// Sink takes what was read. It is told of one Service by one goroutine at a time.
type Sink interface {
	// Begin: the Service is read from now on. It is fresh if it came into being while
	// the runner ran, so that its pods are new as well.
	Begin(service types.NamespacedName, fresh bool)
	// Read is what its targets said: all of them, which may be none, or only those
	// that are being deleted.
	Read(service types.NamespacedName, all []Reading)
	// End: it is not read by this process any more.
	End(service types.NamespacedName)
}

// Settings that may change while the runner runs.
type Settings struct {
	// Interval from one reading to the next.
	Interval time.Duration
	Limits   Limits
	// Reader for a runtime, and for queue-proxy.
	Reader func(runtime string) *mapping.Reader
	Entry  *mapping.Reader
}

func (s Settings) reader(t Target) *mapping.Reader {
	if t.Entry {
		return s.Entry
	}
	return s.Reader(t.Runtime)
}

// Runner reads every Service that this process leads, each at its own moment.
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
	// known Services are those that were there before.
	known  map[types.NamespacedName]bool
	passed bool
	wait   sync.WaitGroup
}

// Run returns when the context has ended and nothing is read any more.
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

// follow starts and stops reading as Services come, go and change hands.
func (r *Runner) follow(ctx context.Context) {
	if !r.Plan.Ready() {
		// What comes when it is ready is not new, but was not known.
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
	// Begin takes note of the pods that there are, which have counted before: those that
	// Targets has found to belong to the Service.
	r.Plan.Targets(ctx, key)
	r.Sink.Begin(key, fresh)
	defer r.Sink.End(key)
	var batches sync.WaitGroup
	defer batches.Wait()
	var mu sync.Mutex // the sink's, and of what is being read
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

// forget lets go of the memories of targets that are gone.
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

// identity of a target is what must not be read twice at a time.
func identity(t Target) Target { return Target{Pod: t.Pod, Entry: t.Entry} }

// batch reads targets side by side, and returns when all have answered.
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

// next is when a Service is due: at the same offset in every interval, which its
// name decides, so that Services do not all come at once, and no restart and no
// other replica changes when.
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

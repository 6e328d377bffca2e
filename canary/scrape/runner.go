package scrape

import (
	"context"
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

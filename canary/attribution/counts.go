// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
)

// Counts holds the request counts of all Services that this process scrapes. It is safe for concurrent
// use and implements scrape.Sink.
type Counts struct {
	facts func(types.NamespacedName) Facts
	now   func() time.Time

	mu sync.Mutex
	// services holds the Services that have or had a pod, asleep the others.
	services map[types.NamespacedName]*serviceCounts
	asleep   map[types.NamespacedName]sleeper
	// scrapes counts scrapes by result, over all Services that this process has read.
	scrapes map[string]float64
	// gone holds the rejected samples of Services that are no longer read.
	gone map[string]float64
}

// sleeper is a Service that has had no pod since this process began to read it. Nothing of it was counted, so nothing
// is kept.
type sleeper struct {
	fresh bool
	since time.Time
}

// counts returns what can be said of it while it sleeps. Nothing may be counted in the result, which is for one
// moment only.
func (s sleeper) counts(f Facts) *serviceCounts { return &serviceCounts{facts: f, idle: true} }

// wake returns the counts of a Service that has got its first pod, or whose counts are to be compared later.
func (s sleeper) wake() *serviceCounts {
	c := newServiceCounts(s.fresh)
	c.begun, c.before = true, map[types.UID]bool{}
	c.split.note(s.since, nil)
	return c
}

var _ scrape.Sink = (*Counts)(nil)

// NewCounts returns Counts without a Service. facts must be fast because it runs after every reading.
func NewCounts(facts func(types.NamespacedName) Facts, now func() time.Time) *Counts {
	return &Counts{
		facts: facts, now: now, services: map[types.NamespacedName]*serviceCounts{},
		asleep:  map[types.NamespacedName]sleeper{},
		scrapes: map[string]float64{}, gone: map[string]float64{},
	}
}

// Begin implements scrape.Sink.
func (c *Counts) Begin(service types.NamespacedName, fresh bool) {
	facts, now := c.facts(service), c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(service)
	if len(facts.Pods)+len(facts.Claimed) == 0 {
		c.asleep[service] = sleeper{fresh: fresh, since: now}
		return
	}
	known := newServiceCounts(fresh)
	known.learn(facts, now)
	if fresh {
		// The first reading covers the time from now on, so shares count from here.
		known.split.note(now, nil)
	}
	c.services[service] = known
}

// End implements scrape.Sink. It drops the counts: the next process that reads the Service keeps its
// own.
func (c *Counts) End(service types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(service)
}

func (c *Counts) dropLocked(service types.NamespacedName) {
	if known := c.services[service]; known != nil {
		for reason, n := range known.rejected {
			c.gone[reason] += n
		}
	}
	delete(c.services, service)
	delete(c.asleep, service)
}

// Read implements scrape.Sink.
func (c *Counts) Read(service types.NamespacedName, all []scrape.Reading) {
	facts := c.facts(service)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(facts.Pods)+len(all) > 0 {
		c.wakeLocked(service)
	}
	known := c.services[service]
	if known == nil {
		return
	}
	now := c.now()
	// A pod that has just gone may still have been read. Count its reading before the pod is removed.
	known.admit(facts, now)
	if slices.ContainsFunc(all, func(r scrape.Reading) bool { return r.Err == nil && countsShards(r.Sources) }) {
		known.shards.most = max(leastShards, min(maxShards, maxAllShards-c.shardsExcept(known)))
	}
	known.take(all)
	known.learn(facts, now)
	known.split.note(now, known.handled())
	known.spread(now)
	for _, r := range all {
		c.scrapes[Result(r.Err)]++
	}
}

func (c *Counts) wakeLocked(service types.NamespacedName) {
	if s, sleeps := c.asleep[service]; sleeps {
		c.services[service] = s.wake()
		delete(c.asleep, service)
	}
}

// withCounts calls f with the counts of a Service, and reports whether this process reads it. A Service without pods
// is not read, so its counts first learn the present facts. f may not keep the counts of a Service that is asleep,
// unless it is to be woken.
func (c *Counts) withCounts(service types.NamespacedName, wake bool, f func(known *serviceCounts, now time.Time)) bool {
	facts := Facts{}
	quiet := c.quiet(service)
	if quiet {
		facts = c.facts(service)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if wake || len(facts.Pods) > 0 {
		c.wakeLocked(service)
	}
	known := c.services[service]
	s, sleeps := c.asleep[service]
	switch {
	case sleeps:
		known = s.counts(facts)
	case known == nil:
		return false
	case quiet && len(known.pods) == 0:
		known.learn(facts, now)
	}
	f(known, now)
	return true
}

// quiet reports whether no pod of the Service is counted.
func (c *Counts) quiet(service types.NamespacedName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.services[service]
	return known == nil || len(known.pods) == 0
}

// shardsExcept returns how many shards all other Services count separately. It takes time with many Services.
func (c *Counts) shardsExcept(one *serviceCounts) int {
	n := 0
	for _, other := range c.services {
		if other != one {
			n += len(other.shards.is)
		}
	}
	return n
}

// countsShards reports whether any value is one shard's.
func countsShards(sources []scrape.Source) bool {
	for _, s := range sources {
		for k := range s.Values {
			if k.Shard != "" {
				return true
			}
		}
	}
	return false
}

// Success is the result of a scrape without an error.
const Success = "success"

// Result returns the label value of a scrape: Success or a scrape.Class.
func Result(err error) string { return cmp.Or(string(scrape.ClassOf(err)), Success) }

// Figures yields the figures of all Services, sorted by name. It builds those of one Service at a time.
func (c *Counts) Figures() iter.Seq[Figures] {
	return func(yield func(Figures) bool) {
		for _, key := range c.keys() {
			if f, reads := c.Figure(key); reads && !yield(f) {
				return
			}
		}
	}
}

// keys returns all Services that are read, sorted by name.
func (c *Counts) keys() []types.NamespacedName {
	c.mu.Lock()
	keys := slices.AppendSeq(slices.Collect(maps.Keys(c.services)), maps.Keys(c.asleep))
	c.mu.Unlock()
	slices.SortFunc(keys, func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
	return keys
}

// Figure returns the figures of one Service; false if this process does not read it.
func (c *Counts) Figure(service types.NamespacedName) (f Figures, reads bool) {
	reads = c.withCounts(service, false, func(known *serviceCounts, now time.Time) { f = known.figures(service, now) })
	return f, reads
}

// Failure is the last error of a target.
type Failure struct {
	Pod   types.UID
	Entry bool
	Err   error
}

// Failures returns the targets of a Service whose last scrape failed.
func (c *Counts) Failures(service types.NamespacedName) []Failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Failure
	if known := c.services[service]; known != nil {
		for uid, p := range known.pods {
			if p.appErr != nil {
				out = append(out, Failure{Pod: uid, Err: p.appErr})
			}
			if p.entryErr != nil {
				out = append(out, Failure{Pod: uid, Entry: true, Err: p.entryErr})
			}
		}
	}
	return out
}

// Health describes the scraping in this process.
type Health struct {
	// Scrapes counts scrapes by result, Rejected counts samples by reason, both since the process
	// started.
	Scrapes, Rejected map[string]float64
	// Services is the number of Services that are read, Targets the number of their targets.
	Services, Targets int
	// Longest is the longest of the Services' last readings.
	Longest time.Duration
}

// Health returns the state of scraping.
func (c *Counts) Health() Health {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := Health{
		Scrapes: map[string]float64{Success: c.scrapes[Success]}, Rejected: map[string]float64{},
		Services: len(c.services) + len(c.asleep),
	}
	for _, class := range scrape.Classes() {
		h.Scrapes[string(class)] = c.scrapes[string(class)]
	}
	for _, reason := range Rejections() {
		h.Rejected[reason] = c.gone[reason]
		for _, known := range c.services {
			h.Rejected[reason] += known.rejected[reason]
		}
	}
	for _, known := range c.services {
		h.Longest = max(h.Longest, known.took)
		for _, p := range known.pods {
			h.Targets += p.targets()
		}
	}
	return h
}

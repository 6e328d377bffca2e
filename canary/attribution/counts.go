package attribution

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
)

// Counts are the request counts of all Services that this process scrapes. They are safe
// for concurrent use, and are a scrape.Sink.
type Counts struct {
	facts func(types.NamespacedName) Facts
	now   func() time.Time

	mu       sync.Mutex
	services map[types.NamespacedName]*serviceCounts
	// health of reading, over all Services that this process has read.
	scrapes map[string]float64
	// gone is what Services that are not read any more have had rejected.
	gone map[string]float64
}

var _ scrape.Sink = (*Counts)(nil)

// NewCounts returns Counts without a Service. facts must be fast: it is called after
// every reading.
func NewCounts(facts func(types.NamespacedName) Facts, now func() time.Time) *Counts {
	return &Counts{
		facts: facts, now: now, services: map[types.NamespacedName]*serviceCounts{},
		scrapes: map[string]float64{}, gone: map[string]float64{},
	}
}

// Begin implements scrape.Sink.
func (c *Counts) Begin(service types.NamespacedName, fresh bool) {
	known := newServiceCounts(fresh)
	known.learn(c.facts(service), c.now())
	if fresh {
		// Whatever is read first has happened since now: shares count from here.
		known.split.note(c.now(), nil)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.services[service] = known
}

// End implements scrape.Sink. What was counted is forgotten: whoever reads the
// Service from now on counts for itself.
func (c *Counts) End(service types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.services[service]; known != nil {
		for reason, n := range known.rejected {
			c.gone[reason] += n
		}
	}
	delete(c.services, service)
}

// Read implements scrape.Sink.
func (c *Counts) Read(service types.NamespacedName, all []scrape.Reading) {
	facts := c.facts(service)
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.services[service]
	if known == nil {
		return
	}
	now := c.now()
	// A pod that has just gone was read all the same: what was read is counted
	// before it is let go.
	known.admit(facts, now)
	known.shards.most = max(leastShards, min(maxShards, maxAllShards-c.shardsExcept(known)))
	known.take(all)
	known.learn(facts, now)
	known.split.note(now, known.handled())
	known.spread(now)
	for _, r := range all {
		c.scrapes[Result(r.Err)]++
	}
}

// shardsBut are those that are told apart of all Services but one.
func (c *Counts) shardsExcept(one *serviceCounts) int {
	n := 0
	for _, other := range c.services {
		if other != one {
			n += len(other.shards.is)
		}
	}
	return n
}

// Success is the result of a reading that did not fail.
const Success = "success"

// Result of a reading, for a label: Success or a scrape.Class.
func Result(err error) string { return cmp.Or(string(scrape.ClassOf(err)), Success) }

// Figures of all Services, by name.
func (c *Counts) Figures() []Figures {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	out := make([]Figures, 0, len(c.services))
	for key, known := range c.services {
		out = append(out, known.figures(key, now))
	}
	slices.SortFunc(out, func(a, b Figures) int { return cmp.Compare(a.Service.String(), b.Service.String()) })
	return out
}

// Figure are the Figures of one Service; false if this process does not read it.
func (c *Counts) Figure(service types.NamespacedName) (Figures, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.services[service]
	if known == nil {
		return Figures{}, false
	}
	return known.figures(service, c.now()), true
}

// Failure is the last one of a target.
type Failure struct {
	Pod   types.UID
	Entry bool
	Err   error
}

// Failures of the targets of a Service that could not be read the last time.
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

// Health is how reading goes in this process.
type Health struct {
	// Scrapes by result and Rejected samples by reason, since the process began.
	Scrapes, Rejected map[string]float64
	// Services that are read, and Targets of them.
	Services, Targets int
	// Longest of the last readings of each Service.
	Longest time.Duration
}

// Health of reading.
func (c *Counts) Health() Health {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := Health{Scrapes: map[string]float64{Success: c.scrapes[Success]}, Rejected: map[string]float64{}, Services: len(c.services)}
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

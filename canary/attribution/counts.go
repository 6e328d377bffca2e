package attribution

import (
	"cmp"
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

	mu       sync.Mutex
	services map[types.NamespacedName]*serviceCounts
	// scrapes counts scrapes by result, over all Services that this process has read.
	scrapes map[string]float64
	// gone holds the rejected samples of Services that are no longer read.
	gone map[string]float64
}

var _ scrape.Sink = (*Counts)(nil)

// NewCounts returns Counts without a Service. facts must be fast because it runs after every reading.
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
		// The first reading covers the time from now on, so shares count from here.
		known.split.note(c.now(), nil)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.services[service] = known
}

// End implements scrape.Sink. It drops the counts: the next process that reads the Service keeps its
// own.
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
	// A pod that has just gone may still have been read. Count its reading before the pod is removed.
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

// shardsExcept returns how many shards all other Services count separately.
func (c *Counts) shardsExcept(one *serviceCounts) int {
	n := 0
	for _, other := range c.services {
		if other != one {
			n += len(other.shards.is)
		}
	}
	return n
}

// Success is the result of a scrape without an error.
const Success = "success"

// Result returns the label value of a scrape: Success or a scrape.Class.
func Result(err error) string { return cmp.Or(string(scrape.ClassOf(err)), Success) }

// Figures returns the figures of all Services, sorted by name.
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

// Figure returns the figures of one Service; false if this process does not read it.
func (c *Counts) Figure(service types.NamespacedName) (Figures, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.services[service]
	if known == nil {
		return Figures{}, false
	}
	return known.figures(service, c.now()), true
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

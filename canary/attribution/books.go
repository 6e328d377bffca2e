package attribution

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
)

// Books keep what is counted of all Services that this process reads. They are safe
// for concurrent use, and are a scrape.Sink.
type Books struct {
	facts func(types.NamespacedName) Facts
	now   func() time.Time

	mu    sync.Mutex
	books map[types.NamespacedName]*book
	// health of reading, over all Services that this process has read.
	scrapes map[string]float64
	// gone is what Services that are not read any more have had rejected.
	gone map[string]float64
}

var _ scrape.Sink = (*Books)(nil)

// NewBooks returns books without a Service. facts must be quick: it is asked after
// every reading.
func NewBooks(facts func(types.NamespacedName) Facts, now func() time.Time) *Books {
	return &Books{
		facts: facts, now: now, books: map[types.NamespacedName]*book{},
		scrapes: map[string]float64{}, gone: map[string]float64{},
	}
}

// Begin implements scrape.Sink.
func (b *Books) Begin(service types.NamespacedName, fresh bool) {
	known := newBook(fresh)
	known.learn(b.facts(service), b.now())
	if fresh {
		// Whatever is read first has happened since now: shares count from here.
		known.split.note(b.now(), nil)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.books[service] = known
}

// End implements scrape.Sink. What was counted is forgotten: whoever reads the
// Service from now on counts for itself.
func (b *Books) End(service types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.books[service]; known != nil {
		for reason, n := range known.rejected {
			b.gone[reason] += n
		}
	}
	delete(b.books, service)
}

// Read implements scrape.Sink.
func (b *Books) Read(service types.NamespacedName, all []scrape.Reading) {
	facts := b.facts(service)
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.books[service]
	if known == nil {
		return
	}
	now := b.now()
	// A pod that has just gone was read all the same: what was read is counted
	// before it is let go.
	known.admit(facts, now)
	known.shards.most = max(leastShards, min(maxShards, maxAllShards-b.shardsBut(known)))
	known.take(all)
	known.learn(facts, now)
	known.split.note(now, known.handled())
	known.spread(now)
	for _, r := range all {
		b.scrapes[Result(r.Err)]++
	}
}

// shardsBut are those that are told apart of all Services but one.
func (b *Books) shardsBut(one *book) int {
	n := 0
	for _, other := range b.books {
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
func (b *Books) Figures() []Figures {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	out := make([]Figures, 0, len(b.books))
	for key, known := range b.books {
		out = append(out, known.figures(key, now))
	}
	slices.SortFunc(out, func(a, b Figures) int { return cmp.Compare(a.Service.String(), b.Service.String()) })
	return out
}

// Figure are the Figures of one Service; false if this process does not read it.
func (b *Books) Figure(service types.NamespacedName) (Figures, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.books[service]
	if known == nil {
		return Figures{}, false
	}
	return known.figures(service, b.now()), true
}

// Failure is the last one of a target.
type Failure struct {
	Pod   types.UID
	Entry bool
	Err   error
}

// Failures of the targets of a Service that could not be read the last time.
func (b *Books) Failures(service types.NamespacedName) []Failure {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []Failure
	if known := b.books[service]; known != nil {
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
func (b *Books) Health() Health {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := Health{Scrapes: map[string]float64{Success: b.scrapes[Success]}, Rejected: map[string]float64{}, Services: len(b.books)}
	for _, c := range scrape.Classes() {
		h.Scrapes[string(c)] = b.scrapes[string(c)]
	}
	for _, reason := range Rejections() {
		h.Rejected[reason] = b.gone[reason]
		for _, known := range b.books {
			h.Rejected[reason] += known.rejected[reason]
		}
	}
	for _, known := range b.books {
		h.Longest = max(h.Longest, known.took)
		for _, p := range known.pods {
			h.Targets += p.targets()
		}
	}
	return h
}

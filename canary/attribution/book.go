package attribution

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
)

// Bounds of what is told apart in one Service. What is beyond is folded and counted.
const (
	maxEntities = 20
	maxShards   = 4096
	// maxAllShards are those of all Services that this process reads, and leastShards
	// what each may have, whatever the others do.
	maxAllShards = 1 << 17
	leastShards  = 256
	// mostHeld is how many shards a pod can hold that does not lie.
	mostHeld = 1e6
	// maxNames of Revisions that requests are said to have entered at.
	maxNames = 64
	// maxBounds of buckets, beside those that are exported.
	maxBounds = 32
	// Other is the entity type of all that are too many, and the Revision of those
	// that there are not.
	Other = "other"
)

// pod is what is remembered of one.
type pod struct {
	facts Pod
	// old: it was there before this process watched.
	old        bool
	app, entry process
	cut        cut
	history    history
	flight     flight
	shards     map[string]float64
	// hints are why series of its last reading mean less than they might.
	hints []string
	// first is what an old pod had counted when it was read first, for a while.
	first *first
	// appAt and entryAt are the last successful readings, since is when it was first
	// known.
	appAt, entryAt, since time.Time
	appErr, entryErr      error
	// appMissed and entryMissed are the readings in a row that failed until now.
	appMissed, entryMissed int
	appTold, entryTold     bool
}

// targets is how many of its ports are read.
func (p *pod) targets() int {
	n := 0
	for _, told := range []bool{p.appTold, p.entryTold} {
		if told {
			n++
		}
	}
	return n
}

// book is what is known of one Service. It is used by one goroutine at a time.
type book struct {
	// epoch tells this book from any other.
	epoch string
	facts Facts
	fresh bool
	begun bool
	// before are pods that were there when this process began to watch, and were not yet
	// known to belong to the Service.
	before  map[types.UID]bool
	pods    map[types.UID]*pod
	tallies map[types.UID]*Tally
	split   split
	// began are Revisions that have, or may have, handled a request of a shard.
	began map[types.UID]bool
	// ago is where the past of shards begins, and readTill when a pod was read last that
	// had requests of shards.
	ago      ago
	readTill time.Time
	// pastAt is when pods were compared last.
	pastAt time.Time
	// counted: some pod has shown that it counts handled requests.
	counted  bool
	entities few[string]
	// names of Revisions that there are, or were and are still told.
	names    few[string]
	shards   few[ShardKey]
	bounds   few[float64]
	swept    bool
	rejected map[string]float64
	// took is how long the last reading of all pods lasted.
	took time.Duration
}

func newBook(fresh bool) *book {
	return &book{
		epoch: string(uuid.NewUUID()), fresh: fresh, pods: map[types.UID]*pod{}, tallies: map[types.UID]*Tally{},
		entities: newFew[string](maxEntities), names: newFew[string](maxNames), shards: newFew[ShardKey](maxShards), bounds: newFew[float64](maxBounds),
		rejected: map[string]float64{}, began: map[types.UID]bool{},
	}
}

// learn takes new facts: who is new, who is gone, and what happened to whom.
func (b *book) learn(f Facts, now time.Time) {
	b.admit(f, now)
	if !b.begun {
		b.before = map[types.UID]bool{}
		for _, uid := range f.Claimed {
			b.before[uid] = true
		}
	}
	seen, exists := map[types.UID]bool{}, map[types.UID]bool{}
	for _, p := range f.Pods {
		seen[p.UID] = true
	}
	for uid, p := range b.pods {
		if seen[uid] {
			continue
		}
		// It keeps its share; what it began and did not finish nobody will finish.
		if t := b.tallies[p.facts.Revision]; t != nil {
			t.Lost += p.app.open()
			if uid := p.facts.Revision; !b.began[uid] {
				// What it did since it was read last is not known.
				b.began[uid] = true
				t.endPast(b.pastOfShards())
			}
		}
		delete(b.pods, uid)
	}
	for _, r := range f.Revisions {
		exists[r.UID] = true
	}
	for uid, t := range b.tallies {
		if !exists[uid] {
			b.forget(uid, t)
			delete(b.tallies, uid)
		}
	}
	b.retire(f)
	b.facts, b.begun = f, true
}

// retire forgets what Revisions did by shard that have neither pods nor traffic: nobody
// compares them any more. Where there are many Revisions, that is most of what is kept.
func (b *book) retire(f Facts) {
	pods := map[types.UID]bool{}
	for _, p := range f.Pods {
		pods[p.Revision] = true
	}
	for _, r := range f.Revisions {
		if t := b.tallies[r.UID]; t != nil && !pods[r.UID] && r.Required != nil && *r.Required == 0 {
			b.forget(r.UID, t)
		}
	}
}

// admit takes note of Revisions and pods, and lets none go.
func (b *book) admit(f Facts, now time.Time) {
	for _, r := range f.Revisions {
		if b.tallies[r.UID] == nil {
			b.tallies[r.UID] = newTally()
		}
	}
	for _, p := range f.Pods {
		known := b.pods[p.UID]
		if known == nil {
			known = &pod{old: (!b.begun || b.before[p.UID]) && !b.fresh, since: now}
			if known.old {
				known.facts = p // what it suffered before is nobody's news
				known.first = &first{restarts: p.Restarts}
			}
			b.pods[p.UID] = known
		}
		b.suffered(known.facts, p)
		known.facts = p
		if now.Sub(known.since) > takeover {
			known.first = nil
		}
	}
	b.name(f)
}

// Why a pod's containers were started again.
const (
	RestartedOOM    = "oom_killed"
	RestartedOther  = "restarted"
	RestartedFailed = "pod_failed"
)

// Restarts are all of these reasons, in a fixed order.
func Restarts() []string { return []string{RestartedOOM, RestartedOther, RestartedFailed} }

// suffered counts what happened to a pod since it was seen last.
func (b *book) suffered(was, is Pod) {
	t := b.tallies[is.Revision]
	if t == nil {
		return
	}
	if grown := is.Restarts - was.Restarts; grown > 0 {
		reason := RestartedOther
		if is.OOMKilled {
			reason = RestartedOOM
		}
		t.Restarts[reason] += float64(grown)
	}
	if is.Failed && !was.Failed {
		t.Restarts[RestartedFailed]++
	}
}

// take counts what was read.
func (b *book) take(all []scrape.Reading) {
	b.took, b.swept = 0, false
	heard := b.attend()
	for _, r := range all {
		b.took = max(b.took, r.Took)
		p := b.pods[r.Target.Pod]
		if p == nil {
			continue // it went while it was read, and is settled
		}
		t := b.tallies[p.facts.Revision]
		if t == nil {
			continue // its Revision is gone
		}
		if r.Err == nil {
			b.rejected[RejectedValue] += float64(r.Rejected)
			b.rejected[RejectedTwice] += float64(r.Duplicates)
		}
		if r.Target.Entry {
			b.takeEntry(p, t, r)
			continue
		}
		p.appErr, p.appTold = r.Err, true
		if r.Err != nil {
			p.appMissed++
			continue
		}
		p.appAt, p.appMissed, p.hints = r.At, 0, r.Hints
		unread := !p.app.read
		s := p.app.advance(r.Exposition, b.fold, p.old, p.facts.Incarnation, r.At)
		if unread && p.first != nil {
			p.first.app = p.app.counters()
		}
		heard.hear(p, r, s, unread)
		if byShard(s.deltas) && r.At.After(b.readTill) {
			b.readTill = r.At
		}
		b.count(t, s)
		if s.reset {
			t.Lost += s.open
			p.flight = flight{}
		}
		if p.app.source != "" {
			b.counted = true
		}
		p.flight.note(r.At, p.app.open(), p.app.sum(mapping.DurationSum), p.app.sum(mapping.Finished))
		p.shards = b.gauges(r.Sources)
	}
	b.conclude(heard)
}

func (b *book) takeEntry(p *pod, t *Tally, r scrape.Reading) {
	p.entryErr, p.entryTold = r.Err, true
	if r.Err != nil {
		p.entryMissed++
		return
	}
	p.entryMissed = 0
	unread := !p.entry.read
	s := p.entry.advance(r.Exposition, b.fold, p.old, "", r.At)
	p.entryAt = r.At
	if unread && p.first != nil {
		p.first.entry = p.entry.counters()
	}
	b.count(t, s)
	t.Cut += p.cut.note(&p.entry, s.reset, unread && p.old)
}

func (b *book) count(t *Tally, s step) {
	for reason, n := range s.rejected {
		b.rejected[reason] += float64(n)
	}
	t.add(s.deltas)
}

// fold bounds how many entity types, shards and buckets are told apart.
func (b *book) fold(s scrape.Source) map[mapping.Key]float64 {
	if !b.folds(s.Values) {
		return s.Values // as nearly always
	}
	out := make(map[mapping.Key]float64, len(s.Values))
	for k, v := range s.Values {
		if !b.entities.is[k.Entity] && !entryFigure(k.Figure) {
			k.Entity = Other
			b.rejected[RejectedEntity]++
		}
		if k.Shard != "" && !b.shards.admit(ShardKey{Entity: k.Entity, Shard: k.Shard}) {
			b.rejected[RejectedShard]++
			continue
		}
		if bucket(k) && !b.knownBound(k.Bound) {
			b.rejected[RejectedBound]++
			continue
		}
		if b.strange(k) {
			k.Outcome = Other
		}
		out[k] += v
	}
	return out
}

// folds learns which entity types, shards and bounds there are, as long as there is
// room, and says whether there are more.
func (b *book) folds(values map[mapping.Key]float64) bool {
	more := false
	for k := range values {
		if b.crowded(k) {
			b.sweep(values)
		}
		switch {
		case !entryFigure(k.Figure) && !b.entities.admit(k.Entity),
			k.Shard != "" && !b.shards.admit(ShardKey{Entity: k.Entity, Shard: k.Shard}),
			bucket(k) && !b.knownBound(k.Bound),
			b.strange(k):
			more = true
		}
	}
	return more
}

// crowded says whether there is no room for what the key tells apart.
func (b *book) crowded(k mapping.Key) bool {
	return !entryFigure(k.Figure) && b.entities.full(k.Entity) ||
		k.Shard != "" && b.shards.full(ShardKey{Entity: k.Entity, Shard: k.Shard}) ||
		bucket(k) && !isFixed(k.Bound) && b.bounds.full(k.Bound)
}

func (b *book) knownBound(bound float64) bool { return isFixed(bound) || b.bounds.admit(bound) }

func bucket(k mapping.Key) bool {
	return k.Figure == mapping.Duration || k.Figure == mapping.EntryDuration
}

// entryFigure are those of queue-proxy, which knows no entity types.
func entryFigure(f mapping.Figure) bool {
	return f == mapping.EntryHTTP || f == mapping.EntryServing || f == mapping.EntryDuration || f == mapping.EntryDurationSum
}

// strange says that a request is said to have entered where there is no Revision.
func (b *book) strange(k mapping.Key) bool {
	return k.Figure == mapping.EnteredAt && !b.names.is[k.Outcome]
}

// gauges returns the shards that a pod holds, by entity type; nil if unknown.
func (b *book) gauges(sources []scrape.Source) map[string]float64 {
	for _, s := range sources {
		var out map[string]float64
		for k, v := range s.Values {
			if k.Figure != mapping.Shards {
				continue
			}
			if v > mostHeld {
				b.rejected[RejectedValue]++
				continue
			}
			if out == nil {
				out = map[string]float64{}
			}
			if !b.entities.is[k.Entity] {
				k.Entity = Other
			}
			out[k.Entity] += v
		}
		if out != nil {
			return out
		}
	}
	return nil
}

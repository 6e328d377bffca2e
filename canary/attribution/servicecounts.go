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

// serviceCounts are the counts of one Service. One goroutine uses them at a time.
type serviceCounts struct {
	// epoch identifies these counts.
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
	entities boundedSet[string]
	// names of Revisions that there are, or were and are still told.
	names    boundedSet[string]
	shards   boundedSet[ShardKey]
	bounds   boundedSet[float64]
	swept    bool
	rejected map[string]float64
	// took is how long the last reading of all pods lasted.
	took time.Duration
}

func newServiceCounts(fresh bool) *serviceCounts {
	return &serviceCounts{
		epoch: string(uuid.NewUUID()), fresh: fresh, pods: map[types.UID]*pod{}, tallies: map[types.UID]*Tally{},
		entities: newBoundedSet[string](maxEntities), names: newBoundedSet[string](maxNames), shards: newBoundedSet[ShardKey](maxShards), bounds: newBoundedSet[float64](maxBounds),
		rejected: map[string]float64{}, began: map[types.UID]bool{},
	}
}

// learn takes new facts: who is new, who is gone, and what happened to whom.
func (c *serviceCounts) learn(f Facts, now time.Time) {
	c.admit(f, now)
	if !c.begun {
		c.before = map[types.UID]bool{}
		for _, uid := range f.Claimed {
			c.before[uid] = true
		}
	}
	seen, exists := map[types.UID]bool{}, map[types.UID]bool{}
	for _, p := range f.Pods {
		seen[p.UID] = true
	}
	for uid, p := range c.pods {
		if seen[uid] {
			continue
		}
		// It keeps its share; what it began and did not finish nobody will finish.
		if t := c.tallies[p.facts.Revision]; t != nil {
			t.Lost += p.app.open()
			if uid := p.facts.Revision; !c.began[uid] {
				// What it did since it was read last is not known.
				c.began[uid] = true
				t.endPast(c.pastOfShards())
			}
		}
		delete(c.pods, uid)
	}
	for _, r := range f.Revisions {
		exists[r.UID] = true
	}
	for uid, t := range c.tallies {
		if !exists[uid] {
			c.forget(uid, t)
			delete(c.tallies, uid)
		}
	}
	c.retire(f)
	c.facts, c.begun = f, true
}

// retire forgets what Revisions did by shard that have neither pods nor traffic: nobody
// compares them any more. Where there are many Revisions, that is most of what is kept.
func (c *serviceCounts) retire(f Facts) {
	pods := map[types.UID]bool{}
	for _, p := range f.Pods {
		pods[p.Revision] = true
	}
	for _, r := range f.Revisions {
		if t := c.tallies[r.UID]; t != nil && !pods[r.UID] && r.Required != nil && *r.Required == 0 {
			c.forget(r.UID, t)
		}
	}
}

// admit takes note of Revisions and pods, and lets none go.
func (c *serviceCounts) admit(f Facts, now time.Time) {
	for _, r := range f.Revisions {
		if c.tallies[r.UID] == nil {
			c.tallies[r.UID] = newTally()
		}
	}
	for _, p := range f.Pods {
		known := c.pods[p.UID]
		if known == nil {
			known = &pod{old: (!c.begun || c.before[p.UID]) && !c.fresh, since: now}
			if known.old {
				known.facts = p // what it suffered before is nobody's news
				known.first = &first{restarts: p.Restarts}
			}
			c.pods[p.UID] = known
		}
		c.suffered(known.facts, p)
		known.facts = p
		if now.Sub(known.since) > takeover {
			known.first = nil
		}
	}
	c.name(f)
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
func (c *serviceCounts) suffered(was, is Pod) {
	t := c.tallies[is.Revision]
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
func (c *serviceCounts) take(all []scrape.Reading) {
	c.took, c.swept = 0, false
	heard := c.attend()
	for _, r := range all {
		c.took = max(c.took, r.Took)
		p := c.pods[r.Target.Pod]
		if p == nil {
			continue // it went while it was read, and is settled
		}
		t := c.tallies[p.facts.Revision]
		if t == nil {
			continue // its Revision is gone
		}
		if r.Err == nil {
			c.rejected[RejectedValue] += float64(r.Rejected)
			c.rejected[RejectedTwice] += float64(r.Duplicates)
		}
		if r.Target.Entry {
			c.takeEntry(p, t, r)
			continue
		}
		p.appErr, p.appTold = r.Err, true
		if r.Err != nil {
			p.appMissed++
			continue
		}
		p.appAt, p.appMissed, p.hints = r.At, 0, r.Hints
		unread := !p.app.read
		s := p.app.advance(r.Exposition, c.fold, p.old, p.facts.Incarnation, r.At)
		if unread && p.first != nil {
			p.first.app = p.app.counters()
		}
		heard.hear(p, r, s, unread)
		if byShard(s.deltas) && r.At.After(c.readTill) {
			c.readTill = r.At
		}
		c.count(t, s)
		if s.reset {
			t.Lost += s.open
			p.flight = flight{}
		}
		if p.app.source != "" {
			c.counted = true
		}
		p.flight.note(r.At, p.app.open(), p.app.sum(mapping.DurationSum), p.app.sum(mapping.Finished))
		p.shards = c.gauges(r.Sources)
	}
	c.conclude(heard)
}

func (c *serviceCounts) takeEntry(p *pod, t *Tally, r scrape.Reading) {
	p.entryErr, p.entryTold = r.Err, true
	if r.Err != nil {
		p.entryMissed++
		return
	}
	p.entryMissed = 0
	unread := !p.entry.read
	s := p.entry.advance(r.Exposition, c.fold, p.old, "", r.At)
	p.entryAt = r.At
	if unread && p.first != nil {
		p.first.entry = p.entry.counters()
	}
	c.count(t, s)
	t.Cut += p.cut.note(&p.entry, s.reset, unread && p.old)
}

func (c *serviceCounts) count(t *Tally, s step) {
	for reason, n := range s.rejected {
		c.rejected[reason] += float64(n)
	}
	t.add(s.deltas)
}

// fold bounds how many entity types, shards and buckets are told apart.
func (c *serviceCounts) fold(s scrape.Source) map[mapping.Key]float64 {
	if !c.folds(s.Values) {
		return s.Values // as nearly always
	}
	out := make(map[mapping.Key]float64, len(s.Values))
	for k, v := range s.Values {
		if !c.entities.is[k.Entity] && !entryFigure(k.Figure) {
			k.Entity = Other
			c.rejected[RejectedEntity]++
		}
		if k.Shard != "" && !c.shards.admit(ShardKey{Entity: k.Entity, Shard: k.Shard}) {
			c.rejected[RejectedShard]++
			continue
		}
		if bucket(k) && !c.knownBound(k.Bound) {
			c.rejected[RejectedBound]++
			continue
		}
		if c.strange(k) {
			k.Outcome = Other
		}
		out[k] += v
	}
	return out
}

// folds learns which entity types, shards and bounds there are, as long as there is
// room, and says whether there are more.
func (c *serviceCounts) folds(values map[mapping.Key]float64) bool {
	more := false
	for k := range values {
		if c.crowded(k) {
			c.sweep(values)
		}
		switch {
		case !entryFigure(k.Figure) && !c.entities.admit(k.Entity),
			k.Shard != "" && !c.shards.admit(ShardKey{Entity: k.Entity, Shard: k.Shard}),
			bucket(k) && !c.knownBound(k.Bound),
			c.strange(k):
			more = true
		}
	}
	return more
}

// crowded says whether there is no room for what the key tells apart.
func (c *serviceCounts) crowded(k mapping.Key) bool {
	return !entryFigure(k.Figure) && c.entities.full(k.Entity) ||
		k.Shard != "" && c.shards.full(ShardKey{Entity: k.Entity, Shard: k.Shard}) ||
		bucket(k) && !isFixed(k.Bound) && c.bounds.full(k.Bound)
}

func (c *serviceCounts) knownBound(bound float64) bool {
	return isFixed(bound) || c.bounds.admit(bound)
}

func bucket(k mapping.Key) bool {
	return k.Figure == mapping.Duration || k.Figure == mapping.EntryDuration
}

// entryFigure are those of queue-proxy, which knows no entity types.
func entryFigure(f mapping.Figure) bool {
	return f == mapping.EntryHTTP || f == mapping.EntryServing || f == mapping.EntryDuration || f == mapping.EntryDurationSum
}

// strange says that a request is said to have entered where there is no Revision.
func (c *serviceCounts) strange(k mapping.Key) bool {
	return k.Figure == mapping.EnteredAt && !c.names.is[k.Outcome]
}

// gauges returns the shards that a pod holds, by entity type; nil if unknown.
func (c *serviceCounts) gauges(sources []scrape.Source) map[string]float64 {
	for _, s := range sources {
		var out map[string]float64
		for k, v := range s.Values {
			if k.Figure != mapping.Shards {
				continue
			}
			if v > mostHeld {
				c.rejected[RejectedValue]++
				continue
			}
			if out == nil {
				out = map[string]float64{}
			}
			if !c.entities.is[k.Entity] {
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

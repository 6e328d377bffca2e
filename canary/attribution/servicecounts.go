// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
)

// Limits of what is counted separately in one Service. What exceeds them is folded and counted.
const (
	maxEntities = 20
	maxShards   = 4096
	// maxAllShards limits the shards of all Services in this process. Each Service may have
	// leastShards, whatever the others use.
	maxAllShards = 1 << 17
	leastShards  = 256
	// mostHeld is the most shards that a pod can plausibly hold.
	mostHeld = 1e6
	// maxNames limits the Revisions that requests are reported to have entered at.
	maxNames = 64
	// maxBounds limits the bucket bounds beyond the exported ones.
	maxBounds = 32
	// rememberLeft is how long a pod that is gone is remembered.
	rememberLeft = time.Hour
	// Other stands for entity types beyond the limit, and for Revisions that do not exist.
	Other = "other"
)

// pod is what is remembered of one pod.
type pod struct {
	facts Pod
	// old means that it existed before this process watched.
	old        bool
	app, entry process
	cut        cut
	history    history
	birth      birth
	flight     flight
	shards     map[string]float64
	// hints tell why series of its last reading mean less than they could.
	hints []string
	// first holds the counts of an old pod at its first reading, for a while.
	first *first
	// appAt and entryAt are the times of the last successful readings; since is when the pod was first
	// known.
	appAt, entryAt, since time.Time
	appErr, entryErr      error
	// appMissed and entryMissed count the failed readings in a row.
	appMissed, entryMissed int
	appFalls, entryFalls   unsteady
	// others is what its Revision had handled when the pod was first known.
	others             float64
	appTold, entryTold bool
}

// targets returns how many of its ports are read.
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
	// epoch identifies these counts in snapshots; empty before the first.
	epoch string
	facts Facts
	fresh bool
	begun bool
	// idle means that there has never been a pod, so nothing is counted.
	idle bool
	// before holds pods that existed when this process began to watch and were not yet known to belong
	// to the Service.
	before map[types.UID]bool
	// left holds the pods that are gone, and since when. One that comes back, as when its labels were
	// changed and changed back, was counted already.
	left map[types.UID]time.Time
	// gone holds the last counts of pods that have just gone.
	gone    map[types.UID]goneRaw
	pods    map[types.UID]*pod
	tallies map[types.UID]*Tally
	split   split
	// began holds Revisions that have, or may have, handled a request of a shard.
	began map[types.UID]bool
	// ago is where the past of shards begins; readTill is the last reading of a pod with requests of
	// shards.
	ago      ago
	readTill time.Time
	// pastAt is when pods were last compared.
	pastAt time.Time
	// levels holds how bad each Revision was, and frozen what levels were at the first pod of a Revision.
	levels map[types.UID]*levels
	frozen map[types.UID]map[types.UID]Level
	// counted means that some pod has exported handled requests.
	counted  bool
	entities boundedSet[string]
	// names of Revisions that exist, or existed and are still exported.
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
		fresh: fresh, pods: map[types.UID]*pod{}, tallies: map[types.UID]*Tally{},
		entities: newBoundedSet[string](maxEntities), names: newBoundedSet[string](maxNames),
		shards: newBoundedSet[ShardKey](maxShards), bounds: newBoundedSet[float64](maxBounds),
		rejected: map[string]float64{}, began: map[types.UID]bool{}, left: map[types.UID]time.Time{},
		gone:   map[types.UID]goneRaw{},
		levels: map[types.UID]*levels{}, frozen: map[types.UID]map[types.UID]Level{},
	}
}

// tally returns what a Revision has counted, nil if the Revision is not known.
func (c *serviceCounts) tally(revision types.UID) *Tally {
	if c.idle {
		return &nothing
	}
	return c.tallies[revision]
}

// nothing is the Tally of a Revision that has counted nothing. It stays empty.
var nothing Tally

// learn takes new facts: which pods are new, which are gone, and what happened to them.
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
		// The Revision keeps the pod's counts; no process will finish the requests it had open.
		if t := c.tallies[p.facts.Revision]; t != nil {
			if !p.facts.Disrupted {
				t.Lost += p.app.open()
			}
			if uid := p.facts.Revision; !c.began[uid] {
				// What the pod did after its last reading is unknown.
				c.began[uid] = true
				t.endPast(c.pastOfShards())
			}
		}
		c.depart(p, now)
		delete(c.pods, uid)
		c.left[uid] = now
	}
	maps.DeleteFunc(c.gone, func(_ types.UID, g goneRaw) bool { return now.Sub(g.left) > goneKept })
	maps.DeleteFunc(c.left, func(_ types.UID, at time.Time) bool { return now.Sub(at) > rememberLeft })
	for _, r := range f.Revisions {
		exists[r.UID] = true
	}
	for uid, t := range c.tallies {
		if !exists[uid] {
			c.forget(uid, t)
			delete(c.tallies, uid)
			delete(c.levels, uid)
			delete(c.frozen, uid)
		}
	}
	c.retire(f)
	c.facts, c.begun = f, true
}

// retire drops the counts per shard of Revisions with neither pods nor traffic, because nothing
// compares them any more. With many Revisions, that is most of the memory.
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

// admit adds Revisions and pods, and removes none.
func (c *serviceCounts) admit(f Facts, now time.Time) {
	for _, r := range f.Revisions {
		if c.tallies[r.UID] == nil {
			c.tallies[r.UID] = newTally()
		}
	}
	for _, p := range f.Pods {
		known := c.pods[p.UID]
		if known == nil {
			at, returned := c.left[p.UID]
			returned = returned && now.Sub(at) <= rememberLeft
			known = &pod{old: returned || (!c.begun || c.before[p.UID]) && !c.fresh, since: now}
			if known.old {
				known.facts = p // restarts before it was known do not count
			}
			if known.old && !returned {
				known.first = &first{restarts: p.Restarts}
			}
			if t := c.tallies[p.Revision]; t != nil {
				known.others = t.Total()
			}
			c.pods[p.UID] = known
			c.freeze(p.Revision, known.old)
		}
		c.suffered(known.facts, p)
		known.facts = p
		known.birth.learn(p)
		if now.Sub(known.since) > takeover {
			known.first = nil
		}
	}
	c.name(f)
}

// Why a pod's containers restarted.
const (
	RestartedOOM    = "oom_killed"
	RestartedOther  = "restarted"
	RestartedFailed = "pod_failed"
)

// Restarts returns all reasons, in a fixed order.
func Restarts() []string { return []string{RestartedOOM, RestartedOther, RestartedFailed} }

// suffered counts what happened to a pod since the last facts, except by a disruption.
func (c *serviceCounts) suffered(was, is Pod) {
	t := c.tallies[is.Revision]
	if t == nil || is.Disrupted {
		return
	}
	if grown := is.Restarts - was.Restarts; grown > 0 {
		reason := RestartedOther
		if is.OOMKilled {
			reason = RestartedOOM
		}
		plus(&t.Restarts, reason, float64(grown))
	}
	if is.Failed && !was.Failed {
		plus(&t.Restarts, RestartedFailed, 1)
	}
}

// take counts the readings.
func (c *serviceCounts) take(all []scrape.Reading) {
	c.took, c.swept = 0, false
	batch := c.newBatch()
	for _, r := range all {
		c.took = max(c.took, r.Took)
		p := c.pods[r.Target.Pod]
		if p == nil {
			continue // the pod went during the reading and is already settled
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
		p.appAt, p.hints = r.At, r.Hints
		unread, before := !p.app.read, p.app.at
		s := p.app.advance(r.Exposition, c.fold, p.old, r.Target.Container, r.At)
		if unread && p.first != nil {
			p.first.app = p.app.counters()
		}
		if p.app.hadRequests() {
			p.birth.ask(before)
		}
		if p.app.silent(r.Sources) {
			p.appMissed++ // It answers, and no longer says what it counted.
		} else {
			p.appMissed = 0
		}
		p.appFalls.note(s.fell)
		batch.add(p, r, s, unread)
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
	c.conclude(batch)
}

func (c *serviceCounts) takeEntry(p *pod, t *Tally, r scrape.Reading) {
	p.entryErr, p.entryTold = r.Err, true
	if r.Err != nil {
		p.entryMissed++
		return
	}
	p.entryMissed = 0
	unread, before := !p.entry.read, p.entry.at
	s := p.entry.advance(r.Exposition, c.fold, p.old, r.Target.Container, r.At)
	p.entryAt = r.At
	p.entryFalls.note(s.fell)
	if p.entry.hadRequests() {
		p.birth.ask(before)
	}
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
	t.add(s.hidden)
}

// fold limits how many entity types, shards and buckets are counted separately.
func (c *serviceCounts) fold(s scrape.Source) map[mapping.Key]float64 {
	if !c.folds(s.Values) {
		return s.Values // the usual case
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

// folds adds entity types, shards and bounds as long as there is room, and reports whether some exceed
// the limits.
func (c *serviceCounts) folds(values map[mapping.Key]float64) bool {
	more := false
	for k := range values {
		if c.full(k) {
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

// full reports whether there is no room for the key's entity type, shard or bound.
func (c *serviceCounts) full(k mapping.Key) bool {
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

// entryFigure reports whether the figure is queue-proxy's, which has no entity types.
func entryFigure(f mapping.Figure) bool {
	return f == mapping.EntryHTTP || f == mapping.EntryServing || f == mapping.EntryDuration ||
		f == mapping.EntryDurationSum
}

// strange reports whether the request is said to have entered at a Revision that does not exist.
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

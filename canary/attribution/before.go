// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
)

// The past of a shard is what it did before a Revision handled any request of a shard. That past must
// cover the same time for the Revision's own shards and for the others, so it ends for all shards at
// one moment: before the Revision's first request of a shard, or, if no reading shows that request,
// when the Revision was last known to have handled none.

// ago is where the past of shards continues from after part of it was dropped.
type ago struct {
	// base holds each shard's totals at an earlier moment. from holds what the remaining Revisions had
	// counted when base was set.
	base, from map[ShardKey]Shard
}

// pastOfShards returns what each shard has done on any Revision while all shards were counted.
func (c *serviceCounts) pastOfShards() map[ShardKey]Shard {
	out := map[ShardKey]Shard{}
	for k, s := range c.sums() {
		if s = s.minus(c.ago.from[k]).plus(c.ago.base[k]); s != (Shard{}) {
			out[k] = s
		}
	}
	for k, s := range c.ago.base {
		if _, counted := out[k]; !counted {
			out[k] = s
		}
	}
	return out
}

// sums returns what each shard has done, over all Revisions.
func (c *serviceCounts) sums() map[ShardKey]Shard {
	out := map[ShardKey]Shard{}
	for _, t := range c.tallies {
		for k, s := range t.Shards {
			out[k] = out[k].plus(s)
		}
	}
	return out
}

// Loads returns how many requests each shard of a Service has finished since this process began to
// count, over all Revisions; none if the Service is not read, or its shards are not counted.
func (c *Counts) Loads(service types.NamespacedName) map[ShardKey]float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, out := c.services[service], map[ShardKey]float64{}
	if _, sleeps := c.asleep[service]; sleeps {
		return out
	}
	if known == nil {
		return nil
	}
	for k, s := range known.sums() {
		out[k] = s.Finished()
	}
	return out
}

// forget drops a Revision's counts per shard. The others' shards were counted in that time and its own
// no longer are, so the past of all shards starts again.
func (c *serviceCounts) forget(uid types.UID, t *Tally) {
	clear(t.Shards)
	if c.began[uid] {
		c.ago = ago{base: t.Before, from: c.sums()}
	}
	t.Before = nil
	delete(c.began, uid)
}

func (s Shard) plus(o Shard) Shard {
	return Shard{
		OK: s.OK + o.OK, Error: s.Error + o.Error, Timeout: s.Timeout + o.Timeout,
		Unknown: s.Unknown + o.Unknown, Slow: s.Slow + o.Slow,
	}
}

// Without returns the sum s less its part o. Rounding never makes it negative.
func (s Shard) Without(o Shard) Shard {
	return Shard{
		OK: max(0, s.OK-o.OK), Error: max(0, s.Error-o.Error), Timeout: max(0, s.Timeout-o.Timeout),
		Unknown: max(0, s.Unknown-o.Unknown), Slow: max(0, s.Slow-o.Slow),
	}
}

func (s Shard) minus(o Shard) Shard {
	return Shard{
		OK: more(s.OK, o.OK), Error: more(s.Error, o.Error), Timeout: more(s.Timeout, o.Timeout),
		Unknown: more(s.Unknown, o.Unknown), Slow: more(s.Slow, o.Slow),
	}
}

// batch collects what one batch of readings shows about Revisions that had no shard so far.
type batch struct {
	// past is the past of shards before the batch; till is when it was read.
	past map[ShardKey]Shard
	till time.Time
	// began holds Revisions that have or may have had a shard, quiet holds pods without one and the
	// time of that reading.
	began map[types.UID]bool
	quiet map[types.UID]time.Time
}

// newBatch prepares for a batch. Call it before the batch is counted.
func (c *serviceCounts) newBatch() *batch {
	b := &batch{till: c.readTill, began: map[types.UID]bool{}, quiet: map[types.UID]time.Time{}}
	for _, p := range c.pods {
		if uid := p.facts.Revision; c.tallies[uid] != nil && !c.began[uid] {
			b.past = c.pastOfShards()
			break
		}
	}
	return b
}

// add takes one pod's reading. unread means that the pod was never read before.
func (b *batch) add(p *pod, r scrape.Reading, s step, unread bool) {
	switch {
	case requestedShards(r.Sources) || byShard(s.deltas) || s.reset || p.app.doubt != nil ||
		unread && p.facts.Restarts > 0:
		// A process that has ended since may have counted more after its last reading.
		b.began[p.facts.Revision] = true
	case len(s.rejected) == 0 && !p.app.silent(r.Sources):
		b.quiet[p.facts.UID] = r.At.Add(-r.Took)
	}
}

// conclude decides which Revisions have had a shard, and where the past of the others may end.
func (c *serviceCounts) conclude(b *batch) {
	if b.past == nil {
		return
	}
	unknown, first := map[types.UID]bool{}, map[types.UID]time.Time{}
	for uid, p := range c.pods {
		at, quiet := b.quiet[uid]
		if was, known := first[p.facts.Revision]; !known || at.Before(was) {
			first[p.facts.Revision] = at
		}
		unknown[p.facts.Revision] = unknown[p.facts.Revision] || !quiet
	}
	for uid, t := range c.tallies {
		at, exists := first[uid]
		switch {
		case c.began[uid] || !exists:
		case b.began[uid]:
			c.began[uid] = true
			t.endPast(b.past)
		case unknown[uid] || at.Before(b.till):
			t.endPast(b.past)
		case at.Before(c.readTill):
			// Other pods were read later, so what they had counted at this moment is unknown.
			t.Before = b.past
		default:
			t.Before = nil
		}
	}
}

// endPast sets the past of the shards, unless it is already set.
func (t *Tally) endPast(past map[ShardKey]Shard) {
	if t.Before == nil {
		t.Before = past
	}
}

// requestedShards reports whether any request of a shard was counted.
func requestedShards(sources []scrape.Source) bool {
	for _, s := range sources {
		if byShard(s.Values) {
			return true
		}
	}
	return false
}

// byShard reports whether the values include requests of shards.
func byShard(values map[mapping.Key]float64) bool {
	for k, n := range values {
		if k.Figure == mapping.ShardFinished && n > 0 {
			return true
		}
	}
	return false
}

// Before returns what each shard had done when the Revision was last known not to have handled any
// request of a shard. That moment is now if it still has handled none.
func (s *Snapshot) Before(revision types.UID) map[ShardKey]Shard {
	if earlier := s.revisions[revision].Before; earlier != nil {
		return earlier
	}
	return s.pastOfShards
}

// only keeps the given shards; nil keeps all.
func only(of map[ShardKey]Shard, some map[ShardKey]bool) map[ShardKey]Shard {
	out := maps.Clone(of)
	if some != nil {
		maps.DeleteFunc(out, func(k ShardKey, _ Shard) bool { return !some[k] })
	}
	return out
}

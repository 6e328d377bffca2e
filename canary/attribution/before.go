package attribution

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
)

// What shards did before a Revision had any of them is the same kind of past for the
// shards that it has later and for those that stay with others. What the others did
// while it may have had shards already is not: then only theirs would have a past. So
// the past of all shards ends at one moment, and no later than the Revision's first
// request of a shard. Where that was not seen, it ends when the Revision was last known
// to have had none.

// ago is where the past of shards is gone on from after some of it was forgotten.
type ago struct {
	// base is what they had done at an earlier moment, and from what the Revisions that
	// are left had counted when it was gone on from there.
	base, from map[ShardKey]Shard
}

// pastOfShards is what each shard has done, wherever it was, in the time in which all
// shards were counted.
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

// sums of what each shard has done, over all Revisions.
func (c *serviceCounts) sums() map[ShardKey]Shard {
	out := map[ShardKey]Shard{}
	for _, t := range c.tallies {
		for k, s := range t.Shards {
			out[k] = out[k].plus(s)
		}
	}
	return out
}

// forget what a Revision did by shard. The others' shards were counted in that time, and
// its own are not any more: the past goes on from its beginning, for all of them.
func (c *serviceCounts) forget(uid types.UID, t *Tally) {
	clear(t.Shards)
	if c.began[uid] {
		c.ago = ago{base: t.Before, from: c.sums()}
	}
	t.Before = nil
	delete(c.began, uid)
}

func (s Shard) plus(o Shard) Shard {
	return Shard{OK: s.OK + o.OK, Error: s.Error + o.Error, Timeout: s.Timeout + o.Timeout, Unknown: s.Unknown + o.Unknown, Slow: s.Slow + o.Slow}
}

func (s Shard) minus(o Shard) Shard {
	return Shard{OK: more(s.OK, o.OK), Error: more(s.Error, o.Error), Timeout: more(s.Timeout, o.Timeout), Unknown: more(s.Unknown, o.Unknown), Slow: more(s.Slow, o.Slow)}
}

// witness is what one batch of readings says of Revisions that have had no shard yet.
type witness struct {
	// past before the batch, and until when it was read.
	past map[ShardKey]Shard
	till time.Time
	// began are Revisions that have or may have had one, quiet are pods that had none
	// until then.
	began map[types.UID]bool
	quiet map[types.UID]time.Time
}

// attend to what a batch will say. It must be called before the batch is counted.
func (c *serviceCounts) attend() *witness {
	w := &witness{till: c.readTill, began: map[types.UID]bool{}, quiet: map[types.UID]time.Time{}}
	for _, p := range c.pods {
		if uid := p.facts.Revision; c.tallies[uid] != nil && !c.began[uid] {
			w.past = c.pastOfShards()
			break
		}
	}
	return w
}

// hear what a pod said. unread: it was never read before.
func (w *witness) hear(p *pod, r scrape.Reading, s step, unread bool) {
	switch {
	case requestedShards(r.Sources) || byShard(s.deltas) || s.reset || unread && p.facts.Restarts > 0:
		// What a process said last that ended meanwhile is not known to be all.
		w.began[p.facts.Revision] = true
	case len(s.rejected) == 0 && !p.app.silent(r.Sources):
		w.quiet[p.facts.UID] = r.At.Add(-r.Took)
	}
}

// conclude which Revisions have had a shard, and when the past of the others may end.
func (c *serviceCounts) conclude(w *witness) {
	if w.past == nil {
		return
	}
	unknown, first := map[types.UID]bool{}, map[types.UID]time.Time{}
	for uid, p := range c.pods {
		at, quiet := w.quiet[uid]
		if was, known := first[p.facts.Revision]; !known || at.Before(was) {
			first[p.facts.Revision] = at
		}
		unknown[p.facts.Revision] = unknown[p.facts.Revision] || !quiet
	}
	for uid, t := range c.tallies {
		at, exists := first[uid]
		switch {
		case c.began[uid] || !exists:
		case w.began[uid]:
			c.began[uid] = true
			t.endPast(w.past)
		case unknown[uid] || at.Before(w.till):
			t.endPast(w.past)
		case at.Before(c.readTill):
			// Others were read later: of what they said then it is not known.
			t.Before = w.past
		default:
			t.Before = nil
		}
	}
}

// endPast of the shards, unless it has ended.
func (t *Tally) endPast(past map[ShardKey]Shard) {
	if t.Before == nil {
		t.Before = past
	}
}

// requestedShards says whether any request of a shard was counted.
func requestedShards(sources []scrape.Source) bool {
	for _, s := range sources {
		if byShard(s.Values) {
			return true
		}
	}
	return false
}

// byShard says whether there are requests of shards among what was counted.
func byShard(values map[mapping.Key]float64) bool {
	for k, n := range values {
		if k.Figure == mapping.ShardFinished && n > 0 {
			return true
		}
	}
	return false
}

// Before is what each shard had done when a Revision was last known not to have handled
// any request of a shard: until now, if that is so now.
func (s *Snapshot) Before(revision types.UID) map[ShardKey]Shard {
	if earlier := s.revisions[revision].Before; earlier != nil {
		return earlier
	}
	return s.pastOfShards
}

// only some of the shards, if they are given.
func only(of map[ShardKey]Shard, some map[ShardKey]bool) map[ShardKey]Shard {
	out := maps.Clone(of)
	if some != nil {
		maps.DeleteFunc(out, func(k ShardKey, _ Shard) bool { return !some[k] })
	}
	return out
}

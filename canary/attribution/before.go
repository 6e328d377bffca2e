package attribution

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
)

// What shards did before a Revision had any of them is the same kind of past for the
// shards that it has later and for those that stay with others. What the others did
// while it had its shards already is not: then only theirs would have a past.

// begins notes, for each Revision whose first request by shard is among what was read,
// what all shards had done until then. It returns the readings of such Revisions first,
// so that nothing of what was read together counts as before.
func (b *book) begins(all []scrape.Reading) []scrape.Reading {
	fresh := map[types.UID]bool{}
	for uid, t := range b.tallies {
		fresh[uid] = t.Before == nil
	}
	is := func(r scrape.Reading) int {
		if p := b.pods[r.Target.Pod]; p != nil && fresh[p.facts.Revision] {
			return 0
		}
		return 1
	}
	return slices.SortedStableFunc(slices.Values(all), func(x, y scrape.Reading) int { return is(x) - is(y) })
}

// before is what each shard has done, over all Revisions.
func (b *book) before() map[ShardKey]Shard {
	out := map[ShardKey]Shard{}
	for _, t := range b.tallies {
		for k, s := range t.Shards {
			out[k] = out[k].plus(s)
		}
	}
	return out
}

func (s Shard) plus(o Shard) Shard {
	return Shard{OK: s.OK + o.OK, Error: s.Error + o.Error, Timeout: s.Timeout + o.Timeout, Unknown: s.Unknown + o.Unknown, Slow: s.Slow + o.Slow}
}

// byShard says whether there are requests of shards among what was counted.
func byShard(deltas map[mapping.Key]float64) bool {
	for k, n := range deltas {
		if k.Figure == mapping.ShardFinished && n > 0 {
			return true
		}
	}
	return false
}

// beforeOf is what each shard had done before a Revision had any, of some shards only if
// they are given.
func (t *Tally) beforeOf(only map[ShardKey]bool) map[ShardKey]Shard {
	out := maps.Clone(t.Before)
	if only != nil {
		maps.DeleteFunc(out, func(k ShardKey, _ Shard) bool { return !only[k] })
	}
	return out
}

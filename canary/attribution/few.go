package attribution

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// few are values that are told apart in one Service: at most so many. Where there is no
// room, those give way that nobody tells any more.
type few[K comparable] struct {
	is   map[K]bool
	most int
}

func newFew[K comparable](most int) few[K] { return few[K]{is: map[K]bool{}, most: most} }

// admit says whether a value is told apart, or can be from now on.
func (f *few[K]) admit(k K) bool {
	if !f.is[k] && len(f.is) < f.most {
		f.is[k] = true
	}
	return f.is[k]
}

// full says whether a value that is not told apart must wait for room.
func (f *few[K]) full(k K) bool { return !f.is[k] && len(f.is) >= f.most }

// sweep lets those go that nobody tells.
func (f *few[K]) sweep(told map[K]bool, gone func(K)) {
	for k := range f.is {
		if !told[k] {
			delete(f.is, k)
			gone(k)
		}
	}
}

// isFixed says whether a bound is one of those that are always told apart.
func isFixed(bound float64) bool { return math.IsInf(bound, 1) || slices.Contains(bounds, bound) }

// sweep makes room for values of which there are as many as may be, once in a reading
// of all pods: what no process has told in its last reading, nor is told now, is
// forgotten. A sum of it begins anew if it comes back.
func (b *book) sweep(now map[mapping.Key]float64) {
	if b.swept {
		return
	}
	b.swept = true
	entities, shards, bounds := map[string]bool{}, map[ShardKey]bool{}, map[float64]bool{}
	note := func(k mapping.Key) {
		entities[k.Entity] = true
		if k.Shard != "" {
			shards[ShardKey{Entity: k.Entity, Shard: k.Shard}] = true
		}
		if bucket(k) {
			bounds[k.Bound] = true
		}
	}
	for k := range now {
		note(k)
	}
	for _, p := range b.pods {
		for _, at := range []*process{&p.app, &p.entry} {
			for k := range at.told() {
				note(k)
			}
		}
	}
	b.entities.sweep(entities, func(string) {})
	b.shards.sweep(shards, func(id ShardKey) {
		for _, t := range b.tallies {
			delete(t.Shards, id)
			delete(t.Before, id)
		}
		delete(b.ago.base, id)
		delete(b.ago.from, id)
	})
	b.bounds.sweep(bounds, func(bound float64) {
		for _, t := range b.tallies {
			delete(t.Buckets, bound)
			delete(t.EntryBuckets, bound)
		}
	})
}

// name takes note of the Revisions that there are: those that have pods or traffic
// first. Where there is no room, one gives way that has neither and that no process
// says requests have entered at.
func (b *book) name(f Facts) {
	pods := map[types.UID]bool{}
	for _, p := range f.Pods {
		pods[p.Revision] = true
	}
	alive := func(r Revision) bool { return pods[r.UID] || r.Required != nil && *r.Required > 0 }
	all := slices.Clone(f.Revisions)
	slices.SortFunc(all, func(x, y Revision) int {
		return cmp.Or(-cmp.Compare(rank(alive(x)), rank(alive(y))), cmp.Compare(x.Name, y.Name))
	})
	if !slices.ContainsFunc(all, func(r Revision) bool { return alive(r) && b.names.full(r.Name) }) {
		for _, r := range all {
			b.names.admit(r.Name)
		}
		return
	}
	keep := map[string]bool{}
	for _, p := range b.pods {
		for k := range p.app.told() {
			if k.Figure == mapping.EnteredAt {
				keep[k.Outcome] = true
			}
		}
	}
	for _, r := range all {
		keep[r.Name] = keep[r.Name] || alive(r)
	}
	b.names.sweep(keep, func(name string) {
		for _, t := range b.tallies {
			delete(t.EnteredAt, name)
		}
	})
	for _, r := range all {
		b.names.admit(r.Name)
	}
}

func rank(alive bool) int {
	if alive {
		return 1
	}
	return 0
}

// told are the series of the last reading.
func (p *process) told() iter.Seq[mapping.Key] {
	return func(yield func(mapping.Key) bool) {
		for k, m := range p.last {
			if m.reading == p.reading && !yield(k) {
				return
			}
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// boundedSet holds the values that are counted separately in one Service, up to a limit. If there is no
// room, values that no process exports any more are removed.
type boundedSet[K comparable] struct {
	is   map[K]bool
	most int
}

func newBoundedSet[K comparable](most int) boundedSet[K] {
	return boundedSet[K]{is: map[K]bool{}, most: most}
}

// admit reports whether a value is counted separately, and adds it if there is room.
func (f *boundedSet[K]) admit(k K) bool {
	if !f.is[k] && len(f.is) < f.most {
		f.is[k] = true
	}
	return f.is[k]
}

// full reports whether a value is not counted separately and there is no room for it.
func (f *boundedSet[K]) full(k K) bool { return !f.is[k] && len(f.is) >= f.most }

// sweep removes the values that no process exports.
func (f *boundedSet[K]) sweep(told map[K]bool, gone func(K)) {
	for k := range f.is {
		if !told[k] {
			delete(f.is, k)
			gone(k)
		}
	}
}

// isFixed reports whether a bound is always counted separately.
func isFixed(bound float64) bool { return math.IsInf(bound, 1) || slices.Contains(bounds, bound) }

// sweep makes room in sets that are full, once per reading of all pods. It removes values that no
// process exported in its last reading and that are not in this one. The sum of a value that returns
// starts again at zero.
func (c *serviceCounts) sweep(now map[mapping.Key]float64) {
	if c.swept {
		return
	}
	c.swept = true
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
	for _, p := range c.pods {
		for _, at := range []*process{&p.app, &p.entry} {
			for k := range at.told() {
				note(k)
			}
		}
	}
	c.entities.sweep(entities, func(string) {})
	c.shards.sweep(shards, func(id ShardKey) {
		for _, t := range c.tallies {
			delete(t.Shards, id)
			delete(t.Before, id)
		}
		delete(c.ago.base, id)
		delete(c.ago.from, id)
	})
	c.bounds.sweep(bounds, func(bound float64) {
		for _, t := range c.tallies {
			delete(t.Buckets, bound)
			delete(t.EntryBuckets, bound)
		}
	})
}

// name records the existing Revisions, those with pods or traffic first. If there is no room, it
// removes one without either that no process reports as the entry of requests.
func (c *serviceCounts) name(f Facts) {
	pods := map[types.UID]bool{}
	for _, p := range f.Pods {
		pods[p.Revision] = true
	}
	alive := func(r Revision) bool { return pods[r.UID] || r.Required != nil && *r.Required > 0 }
	all := slices.Clone(f.Revisions)
	slices.SortFunc(all, func(x, y Revision) int {
		return cmp.Or(-cmp.Compare(rank(alive(x)), rank(alive(y))), cmp.Compare(x.Name, y.Name))
	})
	if !slices.ContainsFunc(all, func(r Revision) bool { return alive(r) && c.names.full(r.Name) }) {
		for _, r := range all {
			c.names.admit(r.Name)
		}
		return
	}
	keep := map[string]bool{}
	for _, p := range c.pods {
		for k := range p.app.told() {
			if k.Figure == mapping.EnteredAt {
				keep[k.Outcome] = true
			}
		}
	}
	for _, r := range all {
		keep[r.Name] = keep[r.Name] || alive(r)
	}
	c.names.sweep(keep, func(name string) {
		for _, t := range c.tallies {
			delete(t.EnteredAt, name)
		}
	})
	for _, r := range all {
		c.names.admit(r.Name)
	}
}

func rank(alive bool) int {
	if alive {
		return 1
	}
	return 0
}

// told yields the series of the last reading.
func (p *process) told() iter.Seq[mapping.Key] {
	return func(yield func(mapping.Key) bool) {
		for k, m := range p.last {
			if m.reading == p.reading && !yield(k) {
				return
			}
		}
	}
}

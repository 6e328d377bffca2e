// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

const (
	// maxSnapshotShards limits how many shards a snapshot counts separately.
	maxSnapshotShards = 512
	// takeover is how long a process remembers what pods had counted at its first reading. A process
	// that continues from another's snapshot does so within that time.
	takeover = 10 * time.Minute
)

// Snapshot holds the counts of a Service at one moment. One process can store it as JSON and another
// can use it.
type Snapshot struct {
	At time.Time
	// epoch identifies the serviceCounts that it was taken from.
	epoch     string
	revisions map[types.UID]Tally
	pods      map[types.UID]raw
	// gone holds pods that have just gone; not part of the JSON.
	gone map[types.UID]goneRaw
	// shards that it counts separately; nil means all.
	shards map[ShardKey]bool
	// past of the pods, by Revision; not part of the JSON.
	past map[types.UID][]PodPast
	// pastOfShards up to then, over all Revisions; not part of the JSON.
	pastOfShards map[ShardKey]Shard
	levels       pastLevels
}

// raw is what a pod itself exported.
type raw struct {
	Revision types.UID `json:"revision"`
	// Claimed means that the pod was not yet known to belong to the Service and was not read.
	Claimed  bool     `json:"claimed,omitempty"`
	Restarts int      `json:"restarts,omitempty"`
	App      counters `json:"app,omitzero"`
	Entry    counters `json:"entry,omitzero"`
	// Since is when its age began, zero if unknown.
	Since time.Time `json:"since,omitzero"`
	// Failed means that it has ended for good.
	Failed bool `json:"failed,omitempty"`
	// facts are what is known of it without reading it; not part of the JSON.
	facts Pod
	// young means that this process has watched it from its beginning; not part of the JSON.
	young bool
}

// counters of one process at one port. Read is false if it never answered. Container is the one that serves the port.
// The field incarnation of earlier releases is not read: it named the user's container also where a sidecar counts.
type counters struct {
	Read      bool                    `json:"read,omitempty"`
	Source    string                  `json:"source,omitempty"`
	Start     float64                 `json:"start,omitempty"`
	Container string                  `json:"container,omitempty"`
	Values    map[mapping.Key]float64 `json:"-"`
}

// Delta is what happened to a Service between two moments.
type Delta struct {
	// To is the later moment.
	To Snapshot
	// Revisions holds, by UID, what each did in between.
	Revisions map[types.UID]Tally
	// LostPods counts pods whose counts are incomplete, because for some time no process read them, or
	// only another one.
	LostPods int
	// Pods holds what each pod did in between, as far as it is known. It includes pods that have gone
	// meanwhile, unless the snapshot is another process's.
	Pods map[types.UID]PodTally
	// Lives tells how each pod fared in between.
	Lives map[types.UID]Life
}

// Snapshot returns the current counts of a Service; false if this process does not read it.
func (c *Counts) Snapshot(service types.NamespacedName) (s Snapshot, reads bool) {
	reads = c.withCounts(service, true, func(known *serviceCounts, now time.Time) { s = known.snapshot(now) })
	return s, reads
}

// Since returns what happened to a Service since a snapshot, possibly another process's. It returns
// false if this process does not read the Service or has not yet tried to read every pod.
func (c *Counts) Since(service types.NamespacedName, from Snapshot) (d Delta, known bool) {
	c.withCounts(service, true, func(is *serviceCounts, now time.Time) { d, known = is.since(from, now) })
	return d, known
}

func (c *serviceCounts) since(from Snapshot, now time.Time) (Delta, bool) {
	d := Delta{To: c.snapshot(now), Revisions: map[types.UID]Tally{}}
	if from.epoch == c.epoch {
		for uid, t := range d.To.revisions {
			was := from.revisions[uid]
			d.Revisions[uid] = t.minus(&was, from.shards)
		}
		d.Pods, d.Lives = d.To.podsSince(from), d.To.livesSince(from)
		return d, true
	}
	for _, p := range c.pods {
		if p.old && !p.tried() {
			return Delta{}, false
		}
	}
	for uid, t := range d.To.revisions {
		d.Revisions[uid] = t.minus(newTally(), from.shards)
	}
	d.LostPods = c.between(from, d.Revisions)
	for uid, was := range from.pods {
		if p := c.pods[uid]; p != nil {
			p.birth.inherit(was.Since)
		}
	}
	d.Pods, d.Lives = d.To.podsSince(from), d.To.livesSince(from)
	return d, true
}

// tried reports whether the pod was read, or its scrape failed.
func (p *pod) tried() bool { return p.app.read || p.entry.read || p.appErr != nil || p.entryErr != nil }

// between adds what pods did after another process's snapshot and before this process first read them.
// It returns for how many pods that is unknown.
func (c *serviceCounts) between(from Snapshot, revisions map[types.UID]Tally) int {
	lost := 0
	for uid, was := range from.pods {
		if c.pods[uid] == nil && !was.Claimed {
			lost++ // no process read its last counts
		}
	}
	for uid, p := range c.pods {
		t, exists := revisions[p.facts.Revision]
		if !p.old || !exists {
			continue
		}
		was, known := from.pods[uid]
		if p.first == nil {
			lost++ // too long ago
			continue
		}
		app, appWhole := p.first.app.since(was.App, known)
		entry, entryWhole := p.first.entry.since(was.Entry, known)
		if !appWhole || !entryWhole || !p.app.read && !p.entry.read {
			lost++
		}
		for _, deltas := range []map[mapping.Key]float64{app, entry} {
			keep(deltas, from.shards)
			t.add(deltas)
		}
		if more := p.first.restarts - was.Restarts; more > 0 && !was.Claimed {
			t.Restarts[RestartedOther] += float64(more)
		}
		revisions[p.facts.Revision] = t
	}
	return lost
}

// since returns what a process counted between two readings of different readers, and whether that is
// complete.
func (c counters) since(was counters, known bool) (deltas map[mapping.Key]float64, whole bool) {
	out := map[mapping.Key]float64{}
	switch {
	case !c.Read:
		return out, !was.Read
	case !known:
		// The pod started after the snapshot, and so did all its counts.
		return maps.Clone(c.Values), true
	case !was.Read || was.Source != "" && was.Source != c.Source:
		return out, false
	case c.restarted(was):
		return maps.Clone(c.Values), false
	}
	for k, v := range c.Values {
		switch d := v - was.Values[k]; {
		case d > 0:
			out[k] += d
		case d < 0:
			hide(out, k, v)
		}
	}
	return out, true
}

// first holds a pod's counts at this process's first reading.
type first struct {
	app, entry counters
	restarts   int
}

// counters returns a process's counters at its last reading.
func (p *process) counters() counters {
	c := counters{
		Read: p.read, Source: p.source, Start: p.start, Container: p.container,
		Values: make(map[mapping.Key]float64, len(p.last)),
	}
	for k, m := range p.last {
		c.Values[k] = m.value
	}
	return c
}

func (c *serviceCounts) snapshot(now time.Time) Snapshot {
	if c.epoch == "" {
		c.epoch = string(uuid.NewUUID())
	}
	s := Snapshot{
		At: now, epoch: c.epoch, revisions: map[types.UID]Tally{}, pods: map[types.UID]raw{},
		gone: map[types.UID]goneRaw{}, shards: c.fewShards(), past: c.past(),
		levels: pastLevels{now: c.allLevels(), frozen: maps.Clone(c.frozen)},
	}
	for uid, t := range c.tallies {
		is := t.minus(newTally(), s.shards)
		is.Before = only(t.Before, s.shards)
		s.revisions[uid] = is
	}
	s.pastOfShards = only(c.pastOfShards(), s.shards)
	for uid, p := range c.pods {
		r := p.raw(now)
		keep(r.App.Values, s.shards)
		s.pods[uid] = r
	}
	for uid, g := range c.gone {
		g.App.Values = maps.Clone(g.App.Values)
		keep(g.App.Values, s.shards)
		s.gone[uid] = g
	}
	for _, uid := range c.facts.Claimed {
		if c.pods[uid] == nil {
			s.pods[uid] = raw{Claimed: true}
		}
	}
	return s
}

// fewShards returns the shards that a snapshot counts separately, always the same ones; nil means all.
func (c *serviceCounts) fewShards() map[ShardKey]bool {
	if len(c.shards.is) <= maxSnapshotShards {
		return nil
	}
	all := slices.SortedFunc(maps.Keys(c.shards.is), func(a, c ShardKey) int {
		return cmp.Or(cmp.Compare(a.Entity, c.Entity), cmp.Compare(a.Shard, c.Shard))
	})
	out := map[ShardKey]bool{}
	for _, k := range all[:maxSnapshotShards] {
		out[k] = true
	}
	return out
}

// keep removes all shards except the given ones; nil keeps all.
func keep(values map[mapping.Key]float64, only map[ShardKey]bool) {
	if only == nil {
		return
	}
	maps.DeleteFunc(values, func(k mapping.Key, _ float64) bool {
		return k.Shard != "" && !only[ShardKey{Entity: k.Entity, Shard: k.Shard}]
	})
}

// minus returns what was counted in between, only for the given shards if there are any.
func (t *Tally) minus(was *Tally, only map[ShardKey]bool) Tally {
	out := Tally{
		Started: t.Started - was.Started, DurationSum: t.DurationSum - was.DurationSum, Cut: t.Cut - was.Cut,
		Forwarded: t.Forwarded - was.Forwarded, EntryDurationSum: t.EntryDurationSum - was.EntryDurationSum,
		Lost:     t.Lost - was.Lost,
		Finished: less(t.Finished, was.Finished), EnteredAt: less(t.EnteredAt, was.EnteredAt),
		Buckets: less(t.Buckets, was.Buckets), Entered: less(t.Entered, was.Entered),
		EntryBuckets: less(t.EntryBuckets, was.EntryBuckets), Restarts: less(t.Restarts, was.Restarts),
		Shards: map[ShardKey]Shard{},
	}
	for k, s := range t.Shards {
		if only != nil && !only[k] {
			continue
		}
		w := was.Shards[k]
		out.Shards[k] = Shard{
			OK: more(s.OK, w.OK), Error: more(s.Error, w.Error), Timeout: more(s.Timeout, w.Timeout),
			Unknown: more(s.Unknown, w.Unknown), Slow: more(s.Slow, w.Slow),
		}
	}
	return out
}

// more returns the increase. A sum that was dropped for lack of room restarted at zero.
func more(is, was float64) float64 {
	if is < was {
		return is
	}
	return is - was
}

func less[K comparable](a, b map[K]float64) map[K]float64 {
	out := make(map[K]float64, len(a))
	for k, v := range a {
		out[k] = more(v, b[k])
	}
	return out
}

// Revisions returns the counts of each Revision up to then.
func (s *Snapshot) Revisions() map[types.UID]Tally { return s.revisions }

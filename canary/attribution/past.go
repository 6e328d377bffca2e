// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

const (
	// pastStep is the interval over which pods are compared.
	pastStep = time.Minute
	// pastKept is how much history is kept at least; it is never more than twice that.
	pastKept = time.Hour
)

// Expected compares one pod's bad requests with the number it would have had at its Revision's rate in
// each minute.
type Expected struct{ Bad, Expected float64 }

func (e *Expected) add(bad, expected float64) {
	e.Bad += bad
	e.Expected += expected
}

// PodPast is what a pod did in the last one to two hours, compared with its Revision.
type PodPast struct {
	Watched time.Duration
	// Errors are counted where requests are handled, EntryErrors and ClientErrors where they enter.
	Errors, EntryErrors, ClientErrors Expected
	// Above counts handled requests above each histogram bound, in seconds.
	Above map[float64]Expected
}

func (p *PodPast) merge(o PodPast) {
	p.Watched += o.Watched
	p.Errors.add(o.Errors.Bad, o.Errors.Expected)
	p.EntryErrors.add(o.EntryErrors.Bad, o.EntryErrors.Expected)
	p.ClientErrors.add(o.ClientErrors.Bad, o.ClientErrors.Expected)
	above := maps.Clone(p.Above)
	if above == nil {
		above = map[float64]Expected{}
	}
	for bound, e := range o.Above {
		sum := above[bound]
		sum.add(e.Bad, e.Expected)
		above[bound] = sum
	}
	p.Above = above
}

// history of one pod: two alternating hours, and its counts at the last minute.
type history struct {
	older, newer PodPast
	last         raw
}

// spread records once a minute how the pods of each Revision differ.
func (c *serviceCounts) spread(now time.Time) {
	long := now.Sub(c.pastAt)
	if !c.pastAt.IsZero() && long < pastStep {
		return
	}
	begun := !c.pastAt.IsZero()
	c.pastAt = now
	stateful := map[types.UID]bool{}
	for _, r := range c.facts.Revisions {
		stateful[r.UID] = r.Stateful != ""
	}
	did := map[types.UID]map[*pod]Tally{}
	for _, p := range c.pods {
		is := p.brief()
		t, whole := is.since(p.history.last, nil)
		if known := p.history.last.App.Read || p.history.last.Entry.Read; begun && known && whole {
			uid := p.facts.Revision
			if did[uid] == nil {
				did[uid] = map[*pod]Tally{}
			}
			did[uid][p] = t
		}
		p.history.last = is
	}
	for uid, pods := range did {
		c.measure(uid, compare(pods, stateful[uid], long), long)
	}
}

// compare compares what the pods of one Revision did in the same interval, and returns what they did together.
func compare(pods map[*pod]Tally, stateful bool, long time.Duration) PodShare {
	shares := map[*pod]PodShare{}
	var all PodShare
	for p, t := range pods {
		s := t.Share(stateful)
		shares[p] = s
		all.add(s)
	}
	for p, s := range shares {
		h := &p.history
		if h.newer.Watched >= pastKept {
			h.older, h.newer = h.newer, PodPast{}
		}
		one := PodPast{Watched: long, Above: map[float64]Expected{}}
		one.Errors.add(s.Errors, s.Finished*partOf(all.Errors, all.Finished))
		one.EntryErrors.add(s.EntryErrors, s.Entered*partOf(all.EntryErrors, all.Entered))
		one.ClientErrors.add(s.ClientErrors, s.Classed*partOf(all.ClientErrors, all.Classed))
		for bound, n := range s.Above {
			one.Above[bound] = Expected{Bad: n, Expected: s.Finished * partOf(all.Above[bound], all.Finished)}
		}
		h.newer.merge(one)
	}
	return all
}

func partOf(part, of float64) float64 {
	if of <= 0 {
		return 0
	}
	return part / of
}

// PodShare is what a pod did in an interval.
type PodShare struct {
	Finished, Errors, Entered, EntryErrors float64
	// Classed are the entered requests whose status code is known, ClientErrors those with a 4xx code.
	Classed, ClientErrors float64
	Above                 map[float64]float64
}

func (s *PodShare) add(o PodShare) {
	s.Finished, s.Errors = s.Finished+o.Finished, s.Errors+o.Errors
	s.Entered, s.EntryErrors = s.Entered+o.Entered, s.EntryErrors+o.EntryErrors
	s.Classed, s.ClientErrors = s.Classed+o.Classed, s.ClientErrors+o.ClientErrors
	if s.Above == nil {
		s.Above = map[float64]float64{}
	}
	for bound, n := range o.Above {
		s.Above[bound] += n
	}
}

// Share summarizes the Tally of one pod.
func (t *Tally) Share(stateful bool) PodShare {
	handled, entered := t.Handled(stateful), t.Handled(false)
	s := PodShare{
		Finished: sum(handled), Errors: handled[mapping.Error] + handled[mapping.Timeout],
		Entered: sum(entered), EntryErrors: entered[mapping.Error] + entered[mapping.Timeout],
		Above: map[float64]float64{},
	}
	s.ClientErrors, s.Classed = t.clientErrors()
	buckets, _ := t.Durations(stateful)
	for _, bound := range bounds {
		s.Above[bound] = max(0, buckets.Total()-buckets[bound])
	}
	return s
}

// brief returns what a pod exports, without its shards.
func (p *pod) brief() raw {
	r := raw{Revision: p.facts.Revision, Restarts: p.facts.Restarts, App: p.app.counters(), Entry: p.entry.counters()}
	for _, values := range []map[mapping.Key]float64{r.App.Values, r.Entry.Values} {
		maps.DeleteFunc(values, func(k mapping.Key, _ float64) bool { return k.Shard != "" })
	}
	return r
}

// since returns what one pod did since an earlier reading, only for the given shards if there are any, and
// whether that is complete.
func (r raw) since(was raw, shards map[ShardKey]bool) (Tally, bool) {
	t := newTally()
	whole := true
	for _, port := range [][2]counters{{r.App, was.App}, {r.Entry, was.Entry}} {
		if !port[0].Read && !port[1].Read {
			continue
		}
		deltas, all := port[0].since(port[1], true)
		keep(deltas, shards)
		t.add(deltas)
		whole = whole && all
	}
	return *t, whole
}

// Past returns the past of a Revision's existing pods, in no order. It excludes what another process
// watched.
func (s *Snapshot) Past(revision types.UID) []PodPast { return s.past[revision] }

func (c *serviceCounts) past() map[types.UID][]PodPast {
	out := map[types.UID][]PodPast{}
	for _, p := range c.pods {
		both := PodPast{}
		both.merge(p.history.older)
		both.merge(p.history.newer)
		out[p.facts.Revision] = append(out[p.facts.Revision], both)
	}
	for _, pods := range out {
		slices.SortFunc(pods, func(a, c PodPast) int { return int(c.Watched - a.Watched) })
	}
	return out
}

// podsSince returns what each pod did in between that was read at both moments, or began or ended in
// between.
func (s *Snapshot) podsSince(from Snapshot) map[types.UID]PodTally {
	out := map[types.UID]PodTally{}
	for uid, is := range s.pods {
		if t, whole := is.sinceSnapshot(uid, from); whole {
			out[uid] = t
		}
	}
	for uid, is := range s.gone {
		if _, returned := s.pods[uid]; returned || !is.left.After(from.At) {
			continue
		}
		if t, whole := is.sinceSnapshot(uid, from); whole {
			out[uid] = t
		}
	}
	return out
}

// sinceSnapshot returns what a pod did since a snapshot of its Service, and whether that is complete.
func (r raw) sinceSnapshot(uid types.UID, from Snapshot) (PodTally, bool) {
	was, known := from.pods[uid]
	since := was.Since
	switch {
	case !known:
		// The pod started after that, and so did all its counts.
		was = raw{App: counters{Read: r.App.Read}, Entry: counters{Read: r.Entry.Read}}
		if !r.Since.IsZero() {
			since = later(r.Since, from.At)
		}
	case was.Claimed:
		since = r.Since
	case r.young:
		// All that it counted before its first reading counts, too.
		was.App.Read, was.Entry.Read = was.App.Read || r.App.Read, was.Entry.Read || r.Entry.Read
	}
	t, whole := r.since(was, from.shards)
	return PodTally{Revision: r.Revision, Since: since, Tally: t}, whole
}

// PodTally is what one pod did. Since is when its age began, as it was known at the earlier moment; zero
// if that is unknown.
type PodTally struct {
	Revision types.UID
	Since    time.Time
	Tally
}
